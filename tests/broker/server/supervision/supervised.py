"""A supervisor whose processes do nothing but report events: a program for test_supervisor.py.

    python supervised.py WORKERS STOP_SECONDS SILENCE_SECONDS [[+]NAME=BEHAVIOUR...]

Every event is a line of JSON on standard output; errors of the start are handled as the command
line does.  The supervisor's clock stands still but for the leaps that SIGUSR1 requests, each with
its seconds in a line on standard input.  BEHAVIOUR, of the process NAME, is one of the functions
below; `serve` is the default.  With `+` it is the behaviour in the changed configuration; without
any `+` the configuration does not change.
"""

import json
import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count

from magnetar_broker.base.start_failed import StartFailed
from magnetar_broker.server.runtime.logs import log_to_stderr
from magnetar_broker.server.supervision.children import Context
from magnetar_broker.server.supervision.control import (
    Drain,
    Drained,
    Lost,
    Peer,
    Ready,
    Reloaded,
    Stop,
    Undrain,
    Undrained,
)
from magnetar_broker.server.supervision.supervisor import Changed, Role, Supervisor

REPORT_SECONDS = 0.05
"""The interval of reports: much less than the supervisor's clock advances in a test."""


def report(context: Context, event: str, **details: object) -> None:
    write(name=context.name, generation=context.generation, event=event, **details)


def write(**event: object) -> None:
    """Write a line with one system call: the processes share the pipe."""
    os.write(sys.stdout.fileno(), json.dumps(event).encode() + b"\n")


def greet(context: Context, peer: Peer) -> None:
    """Exchange names with the process at the other end, to show which one it is."""
    own_name = f"{context.name} {context.generation}".encode()
    greetings = []
    with suppress(ConnectionError):  # it may have ended
        for end in filter(None, (peer.link, peer.clients_out)):
            end.sendall(own_name)
            end.shutdown(socket.SHUT_WR)
        for end in filter(None, (peer.link, peer.clients_in)):
            greetings.append(end.makefile().read())
    for end in peer.sockets:
        end.close()
    report(context, "met", worker=peer.worker, peer_generation=peer.generation, greetings=greetings)


def report_alive(context: Context) -> None:
    context.control.report_alive()


def until_stop(context: Context, alive: Callable[[Context], None] = report_alive) -> None:
    """Call `alive` periodically until the process is to stop."""
    while True:
        alive(context)
        while not select.select([context.control], [], [], REPORT_SECONDS)[0]:
            alive(context)
        for message in context.control.receive():
            match message:
                case Peer():
                    greet(context, message)
                case Drain(worker):
                    report(context, "drained", worker=worker)
                    context.control.send(Drained(worker))
                case Undrain(worker):
                    report(context, "undrained", worker=worker)
                    context.control.send(Undrained(worker))
                case Reloaded(values):
                    report(context, "reloaded", values=values)
                case Stop(reason):
                    report(context, "stopped", reason=reason)
                    return


def serve_changed(context: Context) -> None:
    report(context, "changed")
    serve(context)


def serve(context: Context, alive: Callable[[Context], None] = report_alive) -> None:
    report(context, "started", pid=os.getpid())
    context.control.send(Ready())
    until_stop(context, alive)


def tell_reports(context: Context) -> None:
    def alive(context: Context) -> None:
        report_alive(context)
        report(context, "alive")

    serve(context, alive)


def report_nothing(context: Context) -> None:
    until_stop(context, lambda _: None)


def fail(context: Context) -> None:
    raise OSError("there is no room")


def fail_with_defect(context: Context) -> None:
    raise KeyError("a defect")


def leave(context: Context) -> None:
    raise SystemExit("left")


def die(context: Context) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_twice_when_restarted(context: Context) -> None:
    if context.generation in (2, 3):
        die(context)
    serve(context)


def fail_when_restarted(context: Context) -> None:
    if context.generation == 2:
        fail(context)
    serve(context)


def never_ready(context: Context) -> None:
    report(context, "started", pid=os.getpid())
    until_stop(context)


def stubborn(context: Context) -> None:
    serve(context)
    signal.pause()


def fail_at_the_end(context: Context) -> None:
    serve(context)
    fail(context)


def descriptors(context: Context) -> None:
    context.control.send(Ready())
    own = {context.control.fileno(), *(listening.fileno() for listening in context.sockets)}
    report(context, "descriptors", own=sorted(own), all=open_descriptors())
    until_stop(context)


def log(context: Context) -> None:
    logging.getLogger("test").warning("a line of %s", context.name)
    serve(context)


def open_descriptors() -> list[int]:
    listed = os.listdir("/proc/self/fd")  # including its own descriptor, which is closed again
    return sorted(int(number) for number in listed if os.path.lexists(f"/proc/self/fd/{number}"))


def late_to_drain(context: Context) -> None:
    """Run a controller that answers `Drain` only when a process has been restarted."""
    report(context, "started", pid=os.getpid())
    context.control.send(Ready())
    asked: list[int] = []
    while True:
        for message in context.control.receive():
            match message:
                case Peer():
                    greet(context, message)
                    while asked:
                        context.control.send(Drained(asked.pop()))
                case Drain(worker):
                    report(context, "asked", worker=worker)
                    asked.append(worker)
                case Undrain(worker):
                    context.control.send(Undrained(worker))
                case Stop():
                    return


def always_die_asked_to_drain(context: Context) -> None:
    serve_until_asked(context, Drain)


def die_asked_to_drain(context: Context) -> None:
    """Run a controller that ends when it is first asked to drain a worker; the next one serves."""
    if context.generation == 1:
        serve_until_asked(context, Drain)
    else:
        serve(context)


def die_asked_to_undrain(context: Context) -> None:
    if context.generation == 1:
        serve_until_asked(context, Undrain)
    else:
        serve(context)


def serve_until_asked(context: Context, kind: type[Drain | Undrain]) -> None:
    """Serve as a controller, and end without an answer when that is asked."""
    report(context, "started", pid=os.getpid())
    context.control.send(Ready())
    while True:
        for message in context.control.receive():
            match message:
                case Drain() | Undrain() if isinstance(message, kind):
                    die(context)
                case Peer():
                    greet(context, message)
                case Drain(worker):
                    context.control.send(Drained(worker))
                case Stop():
                    return


def lose_worker(context: Context) -> None:
    """Run a controller that reports, at each SIGUSR2, that it has lost the first worker-1."""
    times = count(1)

    def lose(*_: object) -> None:
        context.control.send(Lost(1, 1))
        report(context, "lost", times=next(times))

    signal.signal(signal.SIGUSR2, lose)
    serve(context)


VALUES = {"key": ("text", "source")}


class Configuration:
    """The `Reload` of a supervisor; it can change once."""

    def __init__(self, changed: Changed | None) -> None:
        self._changed = changed

    def changed(self) -> Changed | None:
        write(name="supervisor", event="reload")
        return self._changed

    def done(self) -> None:
        self._changed = None


class Leaping:
    """A clock that advances when the test says so."""

    def __init__(self) -> None:
        self._now = 0.0
        self._leaps = 0

    def __call__(self) -> float:
        return self._now

    def leap(self, *_: object) -> None:
        """Handle the signal."""
        self._now += float(sys.stdin.readline())
        self._leaps += 1
        write(name="supervisor", event="leapt", number=self._leaps)


def main() -> None:
    log_to_stderr("supervisor")
    workers, stop_seconds, silence_seconds, *behaviours = sys.argv[1:]
    by_name = dict(pair.split("=") for pair in behaviours)
    inherited = open_descriptors()

    def run(prefix: str, context: Context) -> None:
        globals()[by_name.get(prefix + context.name, "serve")](context)

    changed = partial(run, "+")
    is_changed = any(name.startswith("+") for name in by_name)
    clock = Leaping()
    signal.signal(signal.SIGUSR1, clock.leap)
    clients, http = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    supervisor = Supervisor(
        Role(partial(run, ""), [http]),
        Role(partial(run, ""), [clients]),
        int(workers),
        float(stop_seconds),
        float(silence_seconds),
        Configuration(Changed(changed, changed, VALUES) if is_changed else None),
        clock,
    )
    try:
        code = supervisor.run(partial(write, name="supervisor", event="ready", inherited=inherited))
    except (StartFailed, OSError) as error:
        raise SystemExit(f"Error: {error}") from error
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # the interpreter's end would reset it
    raise SystemExit(code)


if __name__ == "__main__":
    main()
