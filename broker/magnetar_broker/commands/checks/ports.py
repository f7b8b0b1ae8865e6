"""The ports: whether they are free, or who has them."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Settings
from magnetar_broker.server.ports import bound

LISTENS = "0A"


def check(settings: Settings, holder: int | None) -> Iterator[Finding]:
    """`holder` is the process that has the data directory: a broker that runs."""
    http = {
        "webServicePort": settings.web_service_port,
        "webServicePortTls": settings.web_service_port_tls,
    }
    for name, port in (
        ("brokerServicePort", settings.broker_service_port),
        ("brokerServicePortTls", settings.broker_service_port_tls),
        *http.items(),
    ):
        if port is not None:
            yield from _check(settings, name, port, holder)
    if all(port is None for port in http.values()):
        yield Finding("note", "webServicePort", "no HTTP port: no REST API, metrics or health")


def _check(settings: Settings, name: str, port: int, holder: int | None) -> Iterator[Finding]:
    subject = f"{name}={port}"
    try:
        for one in bound(settings.bind_address, port):
            one.close()
    except OSError as error:
        users = holders_of(port)
        if holder is not None and (not users or any(_is_of(pid, holder) for pid in users)):
            yield Finding("ok", subject, f"used by the broker that runs, process {holder}")
            return
        who = ", ".join(f"process {pid} ({_name_of(pid)})" for pid in users)
        text = f"used by {who}" if users else str(error).partition(";")[0]
        yield Finding("error", subject, text, "end what uses the port, or set another one")
        return
    yield Finding("ok", subject, f"free on {settings.bind_address}")


def holders_of(port: int) -> list[int]:
    """The processes that listen on a port, as far as this user may see them; Linux only."""
    inodes = {f"socket:[{inode}]" for inode in _listening(port)}
    found = []
    for pid in filter(str.isdecimal, _names("/proc")) if inodes else ():
        with suppress(OSError):  # of another user, or it has ended
            links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in _names(f"/proc/{pid}/fd")}
            if links & inodes:
                found.append(int(pid))
    return sorted(found)


def _is_of(pid: int, holder: int) -> bool:
    """Whether a process is the broker's, or the supervisor's of a broker with several."""
    with suppress(OSError), open(f"/proc/{pid}/stat") as file:
        parent = file.read().rpartition(")")[2].split()[1]
        return holder in (pid, int(parent))
    return pid == holder


def _listening(port: int) -> Iterator[str]:
    """The inodes of sockets that listen on a port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table) as file:
            for line in file:
                match = re.match(r"\s*\d+: \w+:(\w{4}) \w+:\w+ (\w\w)", line)
                if match and int(match[1], 16) == port and match[2] == LISTENS:
                    yield line.split()[9]


def _names(directory: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(directory)
    return []


def _name_of(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read(200).replace(b"\0", b" ").decode(errors="replace").strip() or "unknown"
    return "unknown"
