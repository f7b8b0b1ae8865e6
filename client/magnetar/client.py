"""The client: opens producers, consumers and readers that share connections."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from magnetar.auth import Authentication
from magnetar.batching import BATCHED, UNBATCHED, BatchLimits
from magnetar.closing import Closing
from magnetar.concurrency import gather_all
from magnetar.consumer import Consumer
from magnetar.entry_consumer import EntryConsumer
from magnetar.inbox import Inbox
from magnetar.lookup import find_partitions, find_topics
from magnetar.messages import Entry, Message
from magnetar.partition_consumer import FAIL, PartitionConsumer, Subscription
from magnetar.partition_producer import PartitionProducer, ProducerOptions
from magnetar.pool import Pool
from magnetar.producer import Producer
from magnetar.reader import EntryReader, Reader
from magnetar.retry import Retry
from magnetar.security import OPEN, Security, security_of
from magnetar.settings import Settings
from magnetar.tls import Tls
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import EARLIEST, MessageId
from magnetar_proto.names import TopicName

SUBSCRIPTION_TYPES: dict[str, int] = {
    "exclusive": pb.CommandSubscribe.Exclusive,
    "shared": pb.CommandSubscribe.Shared,
    "failover": pb.CommandSubscribe.Failover,
    "key_shared": pb.CommandSubscribe.Key_Shared,
}
INITIAL_POSITIONS: dict[str, int] = {
    "latest": pb.CommandSubscribe.Latest,
    "earliest": pb.CommandSubscribe.Earliest,
}

T = TypeVar("T", bound=Message | Entry)


class _Part(Protocol):
    async def open(self) -> None: ...
    async def close(self) -> None: ...


P = TypeVar("P", bound=_Part)


class Client(Closing):
    """Created by `connect`; `async with` closes it and everything it opened."""

    def __init__(self, service_url: str, settings: Settings, security: Security = OPEN) -> None:
        self.service_url = service_url
        self._settings = settings
        self._pool = Pool(service_url, settings, security)
        self._ids = itertools.count()
        # Weak: what was closed and dropped needs no second closing.
        self._parts: WeakSet[_Part] = WeakSet()

    async def partitions(self, topic: str) -> list[str]:
        """The full names of the topic's partitions: the topic itself when it has none."""
        name = str(TopicName.parse(topic))
        return await Retry(self._settings).in_time(
            lambda: find_partitions(self._pool, name), f"looking up the partitions of {name}"
        )

    async def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        batching: BatchLimits | None = BATCHED,
        **options: Any,
    ) -> Producer:
        """A producer; batching=None sends each message as an entry by itself.

        `options` are further fields of ProducerOptions.
        """
        chosen = ProducerOptions(name=name, batching=batching or UNBATCHED, **options)

        def make(partition_topic: str, index: int) -> PartitionProducer:
            return PartitionProducer(
                self._pool, self._settings, next(self._ids), partition_topic, index, chosen
            )

        return Producer(topic, await self._open_all(topic, make))

    async def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        type: str = "exclusive",
        initial_position: str = "latest",
        **options: Any,
    ) -> Consumer:
        """A consumer; type is exclusive, shared, failover or key_shared.

        `initial_position`, latest or earliest, is where a new subscription starts.  `options`
        are further fields of Subscription: among them `queue_size`, and `on_unreadable`, what
        happens to an entry that cannot be decoded: fail (the default), skip or discard.
        """
        return await self.subscribe_all(
            [topic], subscription, type=type, initial_position=initial_position, **options
        )

    async def subscribe_all(
        self,
        topics: Sequence[str],
        subscription: str,
        *,
        type: str = "exclusive",
        initial_position: str = "latest",
        **options: Any,
    ) -> Consumer:
        """A consumer of several topics, on the subscription of that name of each; as `subscribe`.

        If one of them cannot be subscribed, those before it are left again.
        """
        chosen = Subscription(
            subscription,
            type=_choice(SUBSCRIPTION_TYPES, type, "subscription type"),
            initial_position=_choice(INITIAL_POSITIONS, initial_position, "initial position"),
            **options,
        )
        inbox: Inbox[Message] = Inbox()
        parts: list[PartitionConsumer[Message]] = []
        try:
            for topic in topics:
                parts += await self._consumers(topic, chosen, inbox, Entry.messages)
        except BaseException:
            await asyncio.gather(*(part.close() for part in parts), return_exceptions=True)
            raise
        return Consumer(", ".join(topics), subscription, parts, inbox)

    async def topics_matching(self, pattern: str) -> list[str]:
        """The names of the topics that match a pattern now, in order; of partitioned topics the
        name without the partition.

        The pattern is tenant/namespace/EXPRESSION, with a domain before it or not, or EXPRESSION
        alone for the namespace public/default; the expression must match all of a topic's name
        in the namespace.  ValueError if it is none.
        """
        return await Retry(self._settings).in_time(
            lambda: find_topics(self._pool, pattern), f"listing the topics of {pattern}"
        )

    async def reader(
        self,
        topic: str,
        start: MessageId = EARLIEST,
        *,
        inclusive: bool = False,
        queue_size: int = 1000,
        on_unreadable: str = FAIL,
    ) -> Reader:
        """A reader of what follows `start`, with it if `inclusive`; EARLIEST and LATEST too.

        A real id has a meaning in one partition only: name that partition as the topic.
        `on_unreadable` is what happens to an entry that cannot be decoded: fail or skip.
        """
        chosen = _reading(start, inclusive, queue_size, on_unreadable)
        inbox: Inbox[Message] = Inbox()
        return Reader(topic, await self._consumers(topic, chosen, inbox, Entry.messages), inbox)

    async def entry_reader(
        self,
        topic: str,
        start: MessageId = EARLIEST,
        *,
        inclusive: bool = False,
        queue_size: int = 1000,
        on_unreadable: str = FAIL,
    ) -> EntryReader:
        """A reader of undecoded entries; the topic must be one partition or not partitioned."""
        chosen = _reading(start, inclusive, queue_size, on_unreadable)
        inbox: Inbox[Entry] = Inbox()
        parts = await self._consumers(topic, chosen, inbox, lambda entry: [entry])
        if len(parts) > 1:
            await gather_all(part.close() for part in parts)
            raise ValueError(
                f"{topic} has {len(parts)} partitions: an entry reader reads one, such as "
                f"{parts[0].topic}"
            )
        return EntryReader(parts[0], inbox)

    async def entry_consumer(
        self,
        topic: str,
        subscription: str,
        *,
        type: str = "exclusive",
        initial_position: str = "latest",
        **options: Any,
    ) -> EntryConsumer:
        """A consumer of undecoded entries; the arguments are those of `subscribe`."""
        chosen = Subscription(
            subscription,
            type=_choice(SUBSCRIPTION_TYPES, type, "subscription type"),
            initial_position=_choice(INITIAL_POSITIONS, initial_position, "initial position"),
            **options,
        )
        inbox: Inbox[Entry] = Inbox()
        parts = await self._consumers(topic, chosen, inbox, lambda entry: [entry])
        return EntryConsumer(parts, inbox)

    async def close(self) -> None:
        """Close everything the client opened; raises the first failure."""
        try:
            await gather_all(part.close() for part in list(self._parts))
        finally:
            await self._pool.close()

    async def _consumers(
        self,
        topic: str,
        subscription: Subscription,
        inbox: Inbox[T],
        unpack: Callable[[Entry], list[T]],
    ) -> list[PartitionConsumer[T]]:
        def make(partition_topic: str, index: int) -> PartitionConsumer[T]:
            return PartitionConsumer(
                self._pool,
                self._settings,
                next(self._ids),
                partition_topic,
                index,
                subscription,
                inbox,
                unpack,
            )

        return await self._open_all(topic, make)

    async def _open_all(self, topic: str, make: Callable[[str, int], P]) -> list[P]:
        """One part for each partition, all of them open, or none and the first error."""
        names = await self.partitions(topic)
        parts = [make(name, TopicName.parse(name).partition) for name in names]
        try:
            async with asyncio.TaskGroup() as group:
                for part in parts:
                    group.create_task(part.open())
        except BaseException as error:  # also a cancellation: some parts may be open by then
            await asyncio.gather(*(part.close() for part in parts), return_exceptions=True)
            # Not `except*`: before Python 3.11.4 it wraps what is raised in it in another group.
            if isinstance(error, ExceptionGroup):
                raise _first(error) from None
            raise
        self._parts.update(parts)
        return parts


def connect(
    service_url: str,
    *,
    auth: Authentication | None = None,
    tls: Tls | SSLContext | None = None,
    **settings: float,
) -> Client:
    """A client for `pulsar://host:port` or `pulsar+ssl://host:port`.

    It connects when that is first needed.  `auth` is one of `magnetar.auth`; `tls` says whom to
    trust for pulsar+ssl://, without it the authorities of the system.  `settings` are fields of
    Settings: timeouts and pauses.  Use it as `async with connect(...)`.
    """
    return Client(
        service_url,
        Settings(**settings),  # type: ignore[arg-type]
        security_of(service_url, auth, tls),
    )


def _reading(
    start: MessageId, inclusive: bool, queue_size: int, on_unreadable: str
) -> Subscription:
    return Subscription(
        f"reader-{uuid.uuid4().hex[:10]}",
        start=start,
        start_inclusive=inclusive,
        queue_size=queue_size,
        on_unreadable=on_unreadable,
    )


def _choice(known: dict[str, int], name: str, what: str) -> int:
    if name not in known:
        raise ValueError(f"{what} {name!r} is unknown; known are {', '.join(known)}")
    return known[name]


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    error: Exception = errors
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
