"""The addresses that lookups answer with, out of the settings and the ports that were bound."""

import socket

from magnetar_broker.config import Settings
from magnetar_broker.config.listeners import ListenerUrls, default_listener, urls_by_name

WILDCARDS = ("0.0.0.0", "::")


def advertised_host(settings: Settings) -> str:
    """The host that clients connect to where there are no advertised listeners."""
    if settings.advertised_address is not None:
        return settings.advertised_address
    if settings.bind_address in WILDCARDS:
        return socket.getfqdn()
    return settings.bind_address


def advertised(settings: Settings, port: int) -> tuple[ListenerUrls, dict[str, ListenerUrls]]:
    """The addresses for clients that name no listener, and those of every listener.

    `port` is the one that was bound: `brokerServicePort` may be 0.
    """
    entries = settings.advertised_listeners
    if not entries:
        return ListenerUrls(f"pulsar://{advertised_host(settings)}:{port}"), {}
    listeners = urls_by_name(entries)
    return listeners[default_listener(entries, settings.internal_listener_name)], listeners
