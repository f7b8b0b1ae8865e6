"""The addresses of the broker that runs on a data directory, in a file beside its lock."""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from magnetar_broker.config import Settings
from magnetar_broker.server.runtime.ports import PortNumbers

logger = logging.getLogger(__name__)

FILE: Final = "ADDRESSES"
LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # nothing listens on these here


@dataclass(frozen=True)
class Addresses:
    """The URLs of a broker's ports for clients on this machine; "" for a port that is off.

    They are valid while the process with the number `process` holds the lock of the data directory.
    """

    process: int
    clients: str
    clients_tls: str
    http: str
    http_tls: str

    @property
    def admin_url(self) -> str:
        """The URL of the REST API, without TLS if possible; empty if all HTTP ports are off."""
        return self.http or self.http_tls

    def url_of(self, setting: str) -> str:
        """Return the URL of the port that a setting declares."""
        return {
            "brokerServicePort": self.clients,
            "brokerServicePortTls": self.clients_tls,
            "webServicePort": self.http,
            "webServicePortTls": self.http_tls,
        }[setting]


def addresses_of(settings: Settings, ports: PortNumbers) -> Addresses:
    """Return the addresses of this process, which has already bound these ports."""
    host = LOOPBACK.get(settings.bind_address, settings.bind_address)
    # Certificates are issued for names.
    name = settings.advertised_address or ("localhost" if settings.binds_to_loopback else host)

    def url(scheme: str, host: str, port: int | None) -> str:
        shown = f"[{host}]" if ":" in host else host
        return "" if port is None else f"{scheme}://{shown}:{port}"

    return Addresses(
        os.getpid(),
        url("pulsar", host, ports.clients),
        url("pulsar+ssl", name, ports.clients_tls),
        url("http", host, ports.http),
        url("https", name, ports.http_tls),
    )


def forget(data_dir: str) -> None:
    """Remove the file of this process, or of an earlier one; the caller holds the lock."""
    path = os.path.join(data_dir, FILE)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
    except OSError as error:
        logger.warning("cannot remove %s, which is outdated: %s", path, error.strerror)


def announce(settings: Settings, ports: PortNumbers) -> None:
    """Write the addresses of this process, which holds the lock of the data directory.

    Only commands read the file, so the broker also runs if it cannot be written.
    """
    path = os.path.join(settings.data_dir, FILE)
    text = json.dumps(asdict(addresses_of(settings, ports)), indent=1) + "\n"
    try:
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.tmp", path)
    except OSError as error:
        logger.warning(
            "cannot write %s, so `magnetar doctor` does not find this broker: %s",
            path, error.strerror,
        )  # fmt: skip


def addresses_in(data_dir: str) -> Addresses | None:
    """Return the addresses in the file, or None if the file is missing or incomplete.

    The lock is not checked: the addresses may be those of a broker that has ended.
    """
    try:
        with open(os.path.join(data_dir, FILE), encoding="utf-8") as file:
            found: Mapping[str, Any] = json.load(file)
        return Addresses(**found)
    except (OSError, ValueError, TypeError):
        return None
