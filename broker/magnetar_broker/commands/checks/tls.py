"""The files of TLS: whether a broker can use them, when they expire, and who can read the key."""

import os
import stat
import time
from collections.abc import Iterator

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Settings
from magnetar_broker.config.load import ConfigError
from magnetar_broker.server.tls.contexts import WARNING_SECONDS, uses_tls
from magnetar_broker.server.tls.files import load

SUBJECT = "TLS"


def check(settings: Settings) -> Iterator[Finding]:
    """Nothing without a TLS port."""
    if not uses_tls(settings):
        return
    yield from _permissions("tlsKeyFilePath", settings.tls_key_file_path)
    try:
        certificate = load(settings).certificate
    except (ConfigError, OSError) as error:
        yield Finding("error", SUBJECT, str(error), "correct this: a broker does not start")
        return
    until = certificate.not_after
    days = int((until.timestamp() - time.time()) // 86_400)
    path = f"tlsCertificateFilePath={settings.tls_certificate_file_path}"
    remedy = "replace certificate and key; a broker that runs uses them within minutes"
    if days < 0:
        yield Finding("error", SUBJECT, f"{path} has expired at {until}", remedy)
    elif certificate.not_before.timestamp() > time.time():
        text = f"{path} is not valid before {certificate.not_before}"
        yield Finding("error", SUBJECT, text, "check the clock of this machine, or replace it")
    elif days * 86_400 < WARNING_SECONDS:
        yield Finding("warning", SUBJECT, f"{path} expires in {days} days, at {until}", remedy)
    else:
        yield Finding("ok", SUBJECT, f"{path} fits its key, and is valid for {days} days")


def _permissions(key: str, path: str | None) -> Iterator[Finding]:
    if path is None:
        return
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return  # that is reported with what cannot be used
    if mode & 0o077:
        yield Finding(
            "warning", SUBJECT, f"{key}={path} is open to others than its owner (mode {mode:o})",
            f"chmod 600 {path}, and have it belong to the user of the broker",
        )  # fmt: skip
