"""Several workers of one broker that pass clients to each other, over stores in memory.

Each worker is a whole broker, with a separate socket to each other worker; the worker that serves
a client is shown by the `max_message_size` in CONNECTED.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import permutations
from typing import Any

from fakes.memory_metadata import MemoryMetadata
from fakes.memory_store import MemoryStore
from fakes.waiting import HANGS_SECONDS, until
from magnetar_broker.config import Settings
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.placement.ownership import Owner, SoleOwner
from magnetar_broker.server.clients.client_router import ClientRouter
from magnetar_broker.server.clients.listener import Listener
from magnetar_broker.server.clients.socket_receiver import SocketReceiver
from magnetar_broker.server.clients.socket_sender import HELD, HELD_SECONDS, SocketSender
from magnetar_broker.server.clients.upstreams import Upstreams
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks
from magnetar_broker.server.runtime.descriptors import Descriptors
from magnetar_broker.server.runtime.loop_timer import LoopTimer
from magnetar_broker.standalone import standalone
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, decode, encode
from magnetar_proto.frames import FrameDecoder
from magnetar_proto.names import TopicName
from magnetar_storage.log.cache import EntryCache
from magnetar_storage.log.engine import Engine

MESSAGE_SIZE = 5 << 20
"""The maximum message size of worker 0; that of each next worker is one byte more."""


def address(worker: int) -> str:
    """Return the address that clients name to be served by a worker; nothing listens there."""
    return f"127.0.0.1:{worker + 1}"


class OwnersByLength(SoleOwner):
    """Worker n of `count` owns the topics whose names are n bytes long, modulo `count`.

    Topics in `moved` have another owner.
    """

    def __init__(self, own: int, count: int) -> None:
        super().__init__(f"pulsar://{address(own)}")
        self.moved: dict[TopicName, int] = {}
        self.lookups = 0
        self._own = own
        self._count = count

    def _owner(self, topic: TopicName) -> int:
        return self.moved.get(topic, len(str(topic)) % self._count)

    def other(self, topic: TopicName) -> int | None:
        """Return the worker of a topic; None if it is this one."""
        return None if self._owner(topic) == self._own else self._owner(topic)

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        self.lookups += 1
        # As if it were this worker's: with this answer a client stays at this port.
        return Owner(ListenerUrls(f"pulsar://{address(self._owner(topic))}"), is_self=True)

    async def owns(self, topic: TopicName) -> bool:
        return self.other(topic) is None


class Worker:
    """One worker, in the running loop."""

    def __init__(
        self,
        number: int,
        count: int = 2,
        limit: int = HELD,
        seconds: float = HELD_SECONDS,
        **settings: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        clock, self.loop_timer, self.descriptors = LoopClock(loop), LoopTimer(), Descriptors()
        engine = Engine(
            MemoryStore(clock),
            MemoryMetadata(clock),
            EntryCache(1 << 20),
            clock,
            LoopTasks(loop),
        )
        self.settings = replace(Settings(), max_message_size=MESSAGE_SIZE + number, **settings)
        self.owners = OwnersByLength(number, count)
        self.broker = standalone(self.settings, engine, self.owners).broker
        upstreams = Upstreams(
            self.owners.other,
            lambda other, *client: self.senders[other].send(*client),
            self.descriptors,
            engine.tasks,
            self.loop_timer,
            self.broker.receiving,
        )
        self.listener = Listener(self.broker, self.loop_timer, self.descriptors, upstreams)
        self.senders = {
            other: SocketSender(f"worker {other}", self.loop_timer, limit, seconds)
            for other in range(count)
            if other != number
        }
        self.receivers: dict[int, SocketReceiver] = {}
        self.router: ClientRouter | None = None
        self.destinations = {"": self.listener.adopt, address(number): self.listener.adopt} | {
            address(other): sender.send for other, sender in self.senders.items()
        }

    def receive_from(self, other: int, channel: socket.socket) -> None:
        """Accept the clients that another worker passes over `channel`."""
        self.receivers[other] = SocketReceiver(
            channel, self.listener.adopt, self.descriptors, self.loop_timer
        )

    def accept_from(self, listening: socket.socket) -> None:
        """Accept clients."""
        for sender in self.senders.values():
            sender.start(self.broker.admission)
        self.router = ClientRouter(
            listening,
            self.destinations,
            self.descriptors,
            self.loop_timer,
        )
        self.router.start(self.broker.admission)

    def stop_accepting(self) -> None:
        """Close the port, and the connections that are not served yet."""
        router, self.router = self.router, None
        if router is not None:
            router.stop()

    async def stop(self) -> None:
        """End in order."""
        self.stop_accepting()
        for sender in self.senders.values():
            sender.stop()
        for receiver in self.receivers.values():
            receiver.stop()
        await self.broker.close()
        self.listener.disconnect()


class AsyncClient:
    """A client in the running loop that sends bytes unchanged."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder(1 << 24)
        self._received: list[Any] = []

    @classmethod
    async def open(cls, port: int) -> "AsyncClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @property
    def host(self) -> tuple[str, int]:
        """The client's own address."""
        found: tuple[str, int] = self._writer.get_extra_info("sockname")
        return found

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> Any:
        """Return the next command; None at the end of the connection."""
        while not self._received:
            try:
                data = await asyncio.wait_for(self._reader.read(1 << 16), HANGS_SECONDS)
            except ConnectionError:
                return None
            if not data:
                return None
            frames = self._decoder.feed(data)
            self._received += [getattr(decode(f[1], f[2], f[3]), FIELDS[f[0]]) for f in frames]
        return self._received.pop(0)

    async def served_by(self) -> int:
        """Return the worker that answers CONNECT."""
        answer = await self.receive()
        assert isinstance(answer, pb.CommandConnected), answer
        return answer.max_message_size - MESSAGE_SIZE

    def finish_sending(self) -> None:
        """Close the outgoing half only."""
        self._writer.write_eof()

    def abort(self) -> None:
        """Close without sending pending data."""
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


def connect_frame(url: str = "", filler: int = 0) -> bytes:
    """Return a CONNECT that names a broker, with `filler` additional bytes."""
    command = pb.CommandConnect(client_version="test", protocol_version=21)
    if url:
        command.proxy_to_broker_url = url
    if filler:
        command.auth_data = bytes(filler)
    return encode(command)


def listening_socket() -> socket.socket:
    """Return a socket that is bound to a free port, and does not listen yet."""
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made


class Group:
    """Workers in one loop, of which only worker 0 accepts clients, on `port`."""

    def __init__(self, workers: list[Worker], port: int) -> None:
        self.workers = workers
        self.port = port

    async def client(self, *pieces: bytes) -> AsyncClient:
        """Connect a client that sends these pieces."""
        client = await AsyncClient.open(self.port)
        for piece in pieces:
            await client.send(piece)
        return client

    def serving(self, topic: str) -> list[int]:
        """Return the workers that have a topic loaded."""
        name = TopicName.parse(topic)
        return [n for n, worker in enumerate(self.workers) if name in worker.broker.topics]

    async def move(self, topic: str, owner: int, told: str) -> None:
        """Let another worker serve a topic, without its data.

        Clients that are connected to the former worker are told the URL `told`.
        """
        name = TopicName.parse(topic)
        for worker in self.workers:
            worker.owners.moved[name] = owner
        for number in self.serving(topic):
            topics = self.workers[number].broker.topics
            loaded = topics.get(name)
            assert loaded is not None
            topics.drop(loaded)
            loaded.disconnect(told)
            await loaded.close()

    @property
    def lookups(self) -> int:
        """The number of lookups answered so far."""
        return sum(worker.owners.lookups for worker in self.workers)

    def link(self, sender: int, receiver: int) -> None:
        """Connect `sender` to `receiver`, also in place of a channel that has ended."""
        sending, receiving = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.workers[receiver].receive_from(sender, receiving)
        self.workers[sender].senders[receiver].replace(sending)


@asynccontextmanager
async def group(
    count: int = 2, linked: bool = True, listening: socket.socket | None = None, **options: Any
) -> AsyncIterator[Group]:
    """Start workers, each connected to every other if `linked`."""
    listening = listening or listening_socket()
    workers = [Worker(number, count, **options) for number in range(count)]
    made = Group(workers, listening.getsockname()[1])
    for worker in workers:
        await worker.broker.start()
    if linked:
        for sender, receiver in permutations(range(count), 2):
            made.link(sender, receiver)
    workers[0].accept_from(listening)
    try:
        yield made
    finally:
        for worker in workers:
            await worker.stop()
        await sessions_ended(workers)


async def sessions_ended(workers: list[Worker]) -> None:
    """Wait until every connection is closed."""
    await until(
        lambda: not any(worker.listener.connections for worker in workers),
        "every connection is closed",
    )
