"""A broker of several processes over stores in memory: a program for test_passing.py.

    python passing.py WORKERS

A line of JSON on standard output has the process id of each worker that serves; the first one also
has the port.  Every other worker runs on asyncio's loop instead of uvloop's.
"""

import asyncio
import json
import os
import sys

import uvloop

from fakes.workers import Worker, listening_socket
from magnetar_broker.server.runtime.descriptors import raise_limit
from magnetar_broker.server.runtime.logs import log_to_stderr
from magnetar_broker.server.supervision.children import Context
from magnetar_broker.server.supervision.control import Peer, Ready, Stop
from magnetar_broker.server.supervision.supervisor import Role, Supervisor


def write(**event: object) -> None:
    """Write a line with one system call: the processes share the pipe."""
    os.write(sys.stdout.fileno(), json.dumps(event).encode() + b"\n")


async def serve(context: Context) -> None:
    assert context.worker is not None
    worker = Worker(context.worker, context.workers)
    stopped = asyncio.Event()

    def receive() -> None:
        for message in context.control.receive():
            match message:
                case Peer(worker=int(number), clients_out=out, clients_in=incoming):
                    assert out is not None and incoming is not None
                    worker.senders[number].replace(out)
                    worker.receive_from(number, incoming)
                case Stop():
                    stopped.set()

    await worker.broker.start()
    worker.accept_from(context.sockets[0])
    asyncio.get_running_loop().add_reader(context.control.fileno(), receive)
    write(worker=context.worker, pid=os.getpid())
    context.control.send(Ready())
    await stopped.wait()
    await worker.stop()


def run_worker(context: Context) -> None:
    even = context.worker is not None and context.worker % 2 == 0
    factory = uvloop.new_event_loop if even else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(context))


def run_controller(context: Context) -> None:
    context.control.send(Ready())
    while not any(isinstance(message, Stop) for message in context.control.receive()):
        pass


class Unchanged:
    """A configuration that never changes."""

    def changed(self) -> None:
        """Return None: there is no change."""

    def done(self) -> None:
        """Do nothing; it is never called."""


def main() -> None:
    log_to_stderr("supervisor")
    raise_limit()
    listening = listening_socket()
    write(port=listening.getsockname()[1])
    supervisor = Supervisor(
        Role(run_controller),
        Role(run_worker, [listening]),
        int(sys.argv[1]),
        stop_seconds=60,
        silence_seconds=3600,  # its processes report nothing
        reload=Unchanged(),
    )
    raise SystemExit(supervisor.run(lambda: write(ready=True)))


if __name__ == "__main__":
    main()
