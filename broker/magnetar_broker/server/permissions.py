"""Who may read what the broker stores, and the files that prove who is who."""

import os
import stat

from magnetar_broker.authentication.data_urls import path_of
from magnetar_broker.config import Settings
from magnetar_broker.config.settings import KEYS

PRIVATE_UMASK = 0o077
"""What the broker creates is for its own user only."""
EXPOSED = stat.S_IWGRP | stat.S_IRWXO
"""Of a data directory: its group may read, such as for backups."""
SECRETS = ("token_secret_key", "basic_auth_conf", "tls_key_file_path")
"""Settings that name a file with secrets."""


def protect_files(settings: Settings) -> list[str]:
    """Keep other users from what the broker stores; warnings of what they can read all the same."""
    os.umask(os.umask(PRIVATE_UMASK) | PRIVATE_UMASK)
    warnings = [_protected(settings.data_dir)]
    for field in SECRETS:
        text = getattr(settings, field)
        if text and not text.startswith("data:"):
            warnings.append(_exposed(path_of(text) or text, KEYS[field].name))
    return [warning for warning in warnings if warning]


def _protected(path: str) -> str:
    """Take permissions of the data directory away, or a warning that this is impossible."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:  # it does not exist yet, or the start reports what is wrong
        return ""
    if not mode & EXPOSED:
        return ""
    try:
        os.chmod(path, mode & ~EXPOSED)
    except OSError as error:
        return (
            f"{path}: other users of this machine may read or change the data, and that cannot be "
            f"changed: {error.strerror}; make it a directory of the broker's user: chmod 700"
        )
    return ""


def _exposed(path: str, key: str) -> str:
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:  # the start reports what is wrong
        return ""
    if not mode & stat.S_IRWXO:
        return ""
    return (
        f"{key}: every user of this machine can read {path}, and act as anyone with what is in it: "
        f"chmod o-rwx {path}"
    )
