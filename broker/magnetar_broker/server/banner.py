"""What a broker prints when it is ready."""

from collections.abc import Sequence
from socket import socket

from magnetar_broker.base.version import VERSION
from magnetar_broker.config import Durability, Settings
from magnetar_broker.server.advertised import advertised_host
from magnetar_broker.server.ports import port_of
from magnetar_proto.build import KIND


def banner(
    settings: Settings, service_url: str, http: Sequence[socket], processes: str | None = None
) -> str:
    """The lines; `http` are the bound sockets for HTTP, `processes` are in words."""
    durable = settings.durability is Durability.FSYNC
    lines = [
        f"Magnetar {VERSION} is ready, {KIND}",
        f"  clients     {service_url}",
        *(f"  listener    {entry}" for entry in settings.advertised_listeners),
        f"  HTTP        http://{advertised_host(settings)}:{port_of(http)}"
        if http
        else "  HTTP        off",
        *([f"  processes   {processes}"] if processes else []),
        f"  data        {settings.data_dir}",
        "  durability  fsync: a receipt or ack response is sent when the data is on disk"
        if durable
        else "  durability  RELAXED: responses are sent before the data is on disk; "
        "a power failure can lose acknowledged data (magnetarDurability)",
    ]
    return "\n".join(lines)
