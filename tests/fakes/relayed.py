"""Sessions in a broker of several processes over stores in memory, and the upstreams between."""

from dataclasses import replace
from functools import partial
from typing import Any

from fakes.logs import LogWorld
from fakes.processes import Processes
from fakes.sessions import SessionWorld
from magnetar_broker.config import Settings
from magnetar_broker.session.relay import Upstream
from magnetar_broker.session.relaying import relaying
from magnetar_broker.session.session import Outbox, Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import PROTOCOL_VERSION, encode
from magnetar_proto.names import TopicName

CONNECT = encode(
    pb.CommandConnect(
        client_version="fake",
        protocol_version=PROTOCOL_VERSION,
        proxy_to_broker_url="worker-0:1",  # the client's own CONNECT, and that may name its process
    )
)


class Pipe:
    """An upstream's channel and, at its other end, the shell of an ordinary session.

    Data that the other side does not read waits in the pipe, and counts as a full connection.
    """

    def __init__(self, world: "RelayWorld", worker: int, upstream: Upstream, address: str) -> None:
        self.address = address
        self._world = world
        self._upstream = upstream
        self.near_reads = self.far_reads = True
        self.ended = False
        self.forwarded: list[bytes] = []
        """The writes of the upstream so far."""
        self.down: list[bytes] = []
        self._up: list[bytes] = [CONNECT]
        self.far = world.session_in(worker, self)
        self.far.is_upstream = True
        world.clock.soon(partial(upstream.wrote, False))
        world.clock.soon(self.carry)

    def carry(self) -> None:
        """Move the data that waits."""
        if self.far_reads and self._up and not self.ended:
            data, self._up = b"".join(self._up), []
            for at in range(0, len(data), self._world.chunk):
                self.far.receive(data[at : at + self._world.chunk])
            self._upstream.wrote(full=False)
        if self.near_reads and self.down and not self.ended:
            data, self.down = b"".join(self.down), []
            for at in range(0, len(data), self._world.chunk):
                self._upstream.received(data[at : at + self._world.chunk])
            self.far.wrote(peer_full=False)

    # The channel of the upstream

    def write(self, pieces: list[bytes]) -> None:
        self.forwarded.append(b"".join(pieces))
        self._up += pieces
        if not self.far_reads:
            self._upstream.wrote(full=True)
        self._world.clock.soon(self.carry)

    def pause_reading(self) -> None:
        self.near_reads = False

    def resume_reading(self) -> None:
        self.near_reads = True
        self._world.clock.soon(self.carry)

    def close(self) -> None:
        """Close as a socket does: written data arrives."""
        self.end()

    def break_off(self) -> None:
        """Lose the data in transit, as if the process at the far end were killed."""
        self._up, self.down = [], []
        self.ended = True
        self.far.lost()
        self._world.clock.soon(self._upstream.ended)

    def end(self) -> None:
        """End the connection in order."""
        if not self.ended:
            self.far_reads = True
            self.carry()
            self.ended = True
            self.far.lost()
            self._world.clock.soon(self._upstream.ended)


class _FarEnd:
    """The shell of the session at the far end of a pipe."""

    def __init__(self, pipe: Pipe, world: "RelayWorld") -> None:
        self._pipe = pipe
        self._world = world
        self.address = pipe.address

    def flush_soon(self) -> None:
        self._world.clock.soon(self._flush)

    def _flush(self) -> None:
        self._pipe.down += self._pipe.far.take_output()
        self._pipe.far.wrote(peer_full=not self._pipe.near_reads)
        self._world.clock.soon(self._pipe.carry)

    def pause_reading(self) -> None:
        self._pipe.far_reads = False

    def resume_reading(self) -> None:
        self._pipe.far_reads = True
        self._world.clock.soon(self._pipe.carry)

    def refusal(self) -> None:
        """Return None: there are no limits of connections."""

    def accepted(self) -> None:
        pass

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        self._pipe.down += self._pipe.far.take_output()
        self._world.clock.soon(self._pipe.end)


class RelayWorld(SessionWorld):
    """Several started processes; clients are connected to worker 0."""

    def __init__(self, workers: int = 3, chunk: int = 1 << 20, **settings: Any) -> None:
        """Start the processes; `chunk` is the size of one read on each side of an upstream."""
        LogWorld.__init__(self)
        self.chunk = chunk
        self.processes = Processes(
            replace(Settings(), **settings), self.engine, self.clock, workers
        )
        self.processes.start()
        self.processes.number_of(TopicName.parse("persistent://public/default/any"))
        self.broker = self.processes.workers[0].broker
        self.pipes: list[Pipe] = []
        self._clients = 0

    def session(self, outbox: Outbox) -> Session:
        return self._session(0, outbox)

    def session_in(self, worker: int, pipe: Pipe) -> Session:
        """Return the session at the far end of a pipe."""
        return self._session(worker, _FarEnd(pipe, self))

    def _session(self, worker: int, outbox: Outbox) -> Session:
        def other(topic: TopicName) -> int | None:
            owner = self.processes.workers[worker].owners.worker_here(topic)
            return None if owner == worker else owner

        broker = self.processes.workers[worker].broker
        return Session(broker, outbox, relaying(other), partial(self._connect, outbox.address))

    def _connect(self, address: str, worker: int, upstream: Upstream) -> Pipe:
        self.pipes.append(Pipe(self, worker, upstream, address))
        return self.pipes[-1]

    def move(self, topic: str, worker: int) -> None:
        """Move a topic, and all of its bundle, to another worker."""
        name, bundles = TopicName.parse(topic), self.processes.directory.bundles
        bundle = self.do(bundles.stored.of(name.namespace_name)).of(name)
        self.do(bundles.move(name.namespace_name, bundle, bundles.processes[worker]))

    def topic_of(self, worker: int, base: str = "topic") -> str:
        """Return the name of a topic that a worker serves."""
        names = (f"persistent://public/default/{base}-{number}" for number in range(1000))
        of = self.processes.number_of
        return next(name for name in names if of(TopicName.parse(name)) == worker)
