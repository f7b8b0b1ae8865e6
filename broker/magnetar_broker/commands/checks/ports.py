"""The ports: whether they are free, and which processes listen on them."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.commands.checks.holder import Holder
from magnetar_broker.config import Settings
from magnetar_broker.server.runtime.ports import bound

LISTENS = "0A"


def check(settings: Settings, holder: Holder | None) -> Iterator[Finding]:
    """Check the ports; if `holder` is a running broker, compare them with the settings."""
    http = {
        "webServicePort": settings.web_service_port,
        "webServicePortTls": settings.web_service_port_tls,
    }
    for name, port in (
        ("brokerServicePort", settings.broker_service_port),
        ("brokerServicePortTls", settings.broker_service_port_tls),
        *http.items(),
    ):
        if holder is not None and holder.addresses is not None:
            url = holder.addresses.url_of(name)
            yield from _compare(name, port, urlsplit(url).port, f"{url}, {holder.name}")
        elif port is not None:
            yield from _check(settings, name, port, holder)
    if all(port is None for port in http.values()):
        yield Finding("note", "webServicePort", "no HTTP port: no REST API, metrics or health")


def _compare(name: str, port: int | None, actual: int | None, broker: str) -> Iterator[Finding]:
    """Compare a port of the settings with the port of the running broker."""
    if port is None and actual is None:
        return
    subject = f"{name}={'' if port is None else port}"
    if actual is not None and port in (actual, 0):
        yield Finding("ok", subject, f"used by the broker that runs at {broker}")
        return
    where = "has no such port" if actual is None else f"is at {broker}"
    yield Finding(
        "note", subject, f"the broker that runs {where}: it was started with another configuration",
        "to check that of the broker, name its file (--conf) and run as it does, with its "
        "environment",
    )  # fmt: skip


def _check(settings: Settings, name: str, port: int, holder: Holder | None) -> Iterator[Finding]:
    """Check a port that no broker is known to use; `holder` may be a broker that is starting."""
    subject = f"{name}={port}"
    try:
        for one in bound(settings.bind_address, port):
            one.close()
    except OSError as error:
        users = holders_of(port)
        if holder is not None and is_among(holder.pid, users):
            yield Finding("ok", subject, f"used by the broker that runs, {holder.name}")
            return
        who = ", ".join(f"process {pid} ({name_of(pid)})" for pid in users)
        text = f"used by {who}" if users else str(error).partition(";")[0]
        yield Finding("error", subject, text, "end what uses the port, or set another one")
        return
    yield Finding("ok", subject, f"free on {settings.bind_address}")


def holders_of(port: int) -> list[int]:
    """Return the processes that listen on a port, as far as this user may see them; Linux only."""
    inodes = {f"socket:[{inode}]" for inode in _listening(port)}
    found = []
    for pid in filter(str.isdecimal, _names("/proc")) if inodes else ():
        with suppress(OSError):  # another user's process, or one that has ended
            links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in _names(f"/proc/{pid}/fd")}
            if links & inodes:
                found.append(int(pid))
    return sorted(found)


def is_among(holder: int, pids: Iterable[int]) -> bool:
    """Return whether one of the processes is the holder, or a child process of its broker."""
    return any(_is_of(pid, holder) for pid in pids)


def _is_of(pid: int, holder: int) -> bool:
    """Return whether a process is the holder, or a child of the holder."""
    with suppress(OSError), open(f"/proc/{pid}/stat") as file:
        parent = file.read().rpartition(")")[2].split()[1]
        return holder in (pid, int(parent))
    return pid == holder


def _listening(port: int) -> Iterator[str]:
    """Yield the inodes of sockets that listen on a port."""
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


def name_of(pid: int) -> str:
    """Return the command line of a process, as far as this user may see it."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read(200).replace(b"\0", b" ").decode(errors="replace").strip() or "unknown"
    return "unknown"
