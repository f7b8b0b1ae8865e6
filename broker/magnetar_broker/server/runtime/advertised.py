"""The addresses that lookups answer with, out of the settings and the ports that were bound."""

import socket

from magnetar_broker.config import Settings
from magnetar_broker.config.listeners import ListenerUrls, default_urls, urls_by_name
from magnetar_broker.server.runtime.ports import PortNumbers

WILDCARDS = ("0.0.0.0", "::")  # nothing listens on these here


def advertised_host(settings: Settings) -> str:
    """Return the host that clients connect to if there are no advertised listeners."""
    if settings.advertised_address is not None:
        return settings.advertised_address
    if settings.bind_address in WILDCARDS:
        return socket.getfqdn()
    return settings.bind_address


def advertised(
    settings: Settings, ports: PortNumbers
) -> tuple[ListenerUrls, dict[str, ListenerUrls]]:
    """Return the addresses for clients that name no listener, and those of each listener."""
    entries = settings.advertised_listeners
    if not entries:
        return own_urls(settings, ports), {}
    return default_urls(entries, settings.internal_listener_name), urls_by_name(entries)


def own_urls(settings: Settings, ports: PortNumbers) -> ListenerUrls:
    """Return the addresses of the ports themselves."""
    host = advertised_host(settings)

    def url(scheme: str, port: int | None) -> str:
        return "" if port is None else f"{scheme}://{host}:{port}"

    return ListenerUrls(
        url("pulsar", ports.clients),
        url("pulsar+ssl", ports.clients_tls),
        url("http", ports.http),
        url("https", ports.http_tls),
    )
