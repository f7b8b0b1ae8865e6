"""The files of TLS: whether a broker can use them, and when they expire."""

import time
from collections.abc import Iterator

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Settings
from magnetar_broker.config.load import ConfigError
from magnetar_broker.server.tls.contexts import WARNING_SECONDS, uses_tls
from magnetar_broker.server.tls.files import load

SUBJECT = "TLS"


def check(settings: Settings) -> Iterator[Finding]:
    """Check the files of TLS, if the broker has a TLS port."""
    if not uses_tls(settings):
        return
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
