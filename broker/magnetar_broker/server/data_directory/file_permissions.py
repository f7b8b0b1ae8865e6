"""Permissions of the files that the broker stores, and of the files that prove identities."""

import os
import stat
from collections.abc import Iterator

from magnetar_broker.authentication.data_urls import path_of
from magnetar_broker.config import Settings
from magnetar_broker.config.settings import KEYS

PRIVATE_UMASK = 0o077
"""The umask with which new files are accessible to the broker's user only."""
EXPOSED = stat.S_IWGRP | stat.S_IRWXO
"""The permissions that a data directory must not give; its group may read, such as for backups."""
SECRETS = (
    "token_secret_key",
    "basic_auth_conf",
    "tls_key_file_path",
    "gcs_managed_ledger_offload_service_account_key_file",
    "magnetar_metadata_credentials_file",
    "magnetar_metadata_key_file_path",
)
"""The settings that name a file with secrets."""


def protect_files(settings: Settings) -> list[str]:
    """Protect the broker's files from other users; return warnings about files still readable."""
    # promise: other users of the machine cannot read what the broker writes
    os.umask(os.umask(PRIVATE_UMASK) | PRIVATE_UMASK)
    protected = "" if settings.magnetar_segment_store else _protected(settings.data_dir)
    found = [f"{text}: {remedy}" for text, remedy in exposed_secrets(settings)]
    return [protected, *found] if protected else found


def exposed_secrets(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield a text and the remedy for each file of secrets that every user can read or change."""
    for field in SECRETS:
        text = getattr(settings, field)
        if text and not text.startswith("data:"):
            path = path_of(text) or text
            if _is_exposed(path):
                yield (
                    f"{KEYS[field].name}: every user of this machine can read or change {path}, "
                    "and act as anyone with what is in it",
                    f"chmod o-rwx {path}",
                )


def _protected(path: str) -> str:
    """Take permissions of the data directory away; return a warning if that is impossible."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:  # the file does not exist yet, or the start reports the error
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


def _is_exposed(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IRWXO)
    except OSError:  # the start reports what is wrong
        return False
