"""The broker that runs: whether it is ready and healthy, and which version it is."""

from collections.abc import Iterator
from typing import Any

from magnetar_broker.base.version import VERSION
from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.commands.rest import Login, RestError, ask
from magnetar_broker.config import Settings

SUBJECT = "broker"
HEALTH_SECONDS = 60.0
PATH = "/admin/v2/brokers"
# An address to compare with, which nothing listens on here.
ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # nosec B104


def check(
    settings: Settings, holder: int | None, admin_url: str | None, login: Login
) -> Iterator[Finding]:
    """`holder` is the process that has the data directory; `admin_url` names a broker elsewhere."""
    if admin_url is None:
        if settings.web_service_port is None and settings.web_service_port_tls is None:
            return
        if holder is None:
            yield Finding("note", SUBJECT, "none runs on the data directory")
            return
        admin_url = _configured(settings)
    try:
        version: Any = ask(admin_url, f"{PATH}/version", login=login)
    except RestError as error:
        yield Finding(
            "error" if holder is not None else "warning", SUBJECT, str(error),
            "if it was just started wait for its banner; else its log says what is wrong",
        )  # fmt: skip
        return
    if version != VERSION:
        yield Finding(
            "warning", SUBJECT, f"version {version} runs, and {VERSION} is installed",
            "restart it, to run what is installed",
        )  # fmt: skip
    try:
        ask(admin_url, f"{PATH}/health", timeout_s=HEALTH_SECONDS, login=login)
    except RestError as error:
        yield Finding(
            "error", SUBJECT, f"the health check fails: {error}",
            "see its log; docs/monitoring.md explains the check",
        )  # fmt: skip
    else:
        yield Finding("ok", SUBJECT, f"version {version} at {admin_url} publishes and consumes")


def _configured(settings: Settings) -> str:
    """The address of the configured HTTP port, from this machine."""
    host = ANY.get(settings.bind_address, settings.bind_address)
    if settings.web_service_port is not None:
        return f"http://{host}:{settings.web_service_port}"
    # Certificates are issued for names.
    name = settings.advertised_address or ("localhost" if settings.binds_to_loopback else host)
    return f"https://{name}:{settings.web_service_port_tls}"
