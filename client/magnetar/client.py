"""The client: opens producers, consumers and readers that share connections."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast
from weakref import WeakSet

from magnetar.base.closing import Closing, OpenedPart, Part
from magnetar.base.concurrency import gather_all, open_together
from magnetar.base.errors import Closed, NotFound
from magnetar.base.forking import end_in_children
from magnetar.base.interceptors import OpenInterceptors
from magnetar.base.memory import MemoryLimit
from magnetar.base.schema_info import SchemaInfo
from magnetar.base.settings import Settings
from magnetar.base.statistics import ConsumerStatistics, ProducerStatistics, by_topic
from magnetar.base.unreadable import FAIL, SKIP
from magnetar.base.values import V
from magnetar.connections.lookup import (
    find_partitions,
    find_schema,
    find_topics,
    pattern_of,
    topic_exists,
)
from magnetar.connections.pool import Pool
from magnetar.connections.retry import Retry
from magnetar.connections.topic_discovery import TopicDiscovery
from magnetar.connections.topic_watch import TopicWatch
from magnetar.consumer import Consumer
from magnetar.consuming.entry_consumer import EntryConsumer
from magnetar.consuming.inbox import Inbox
from magnetar.consuming.interceptors import ConsumerInterceptors
from magnetar.consuming.options import (
    Subscription,
    from_start,
    reading_of,
    subscription_of,
)
from magnetar.consuming.partition_consumer import PartitionConsumer
from magnetar.dead_letters import RETRY, DeadLetters, dead_letters_of
from magnetar.encryption.keys import KeyReader
from magnetar.encryption.sending import Encrypting, opened_for
from magnetar.messages import Entry, Message
from magnetar.producer import Producer
from magnetar.producing.batching import BATCHED, UNBATCHED, BatchLimits
from magnetar.producing.interceptors import ProducerInterceptors
from magnetar.producing.options import ProducerOptions
from magnetar.producing.partition_producer import PartitionProducer
from magnetar.producing.routing import Routing
from magnetar.reader import EntryReader, Reader
from magnetar.schema.auto import AutoProduce
from magnetar.schema.base import Schema
from magnetar.schema.versions import SchemaVersions, WriterSchemas
from magnetar.security.security import OPEN, Security
from magnetar.table_view import TableView
from magnetar.transactions.coordinators import Coordinators
from magnetar.transactions.transaction import Transaction
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import EARLIEST, MessageId
from magnetar_proto.names import TopicName

T = TypeVar("T", bound=Message[Any] | Entry)
P = TypeVar("P", bound=OpenedPart)


class Client(Closing):
    """A client, created by `connect`; `async with` closes it and everything it opened."""

    def __init__(self, service_url: str, settings: Settings, security: Security = OPEN) -> None:
        self.service_url = service_url
        self._settings = settings
        self._pool = Pool(service_url, settings, security)
        self._memory = MemoryLimit(settings.memory_limit)
        self._ids = itertools.count()
        self._coordinators = Coordinators(self._pool, settings)
        self._schema_versions = SchemaVersions(self.schema)
        # Weak references: an object that was closed and dropped need not be closed again.
        self._parts: WeakSet[Part] = WeakSet()
        self._interceptors = OpenInterceptors()
        end_in_children(self)

    async def partitions(self, topic: str) -> list[str]:
        """Return the full names of the topic's partitions; its own name if it has none."""
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
        schema: Schema[V] | None = None,
        **options: Any,
    ) -> Producer[V]:
        """Create a producer; batching=None sends each message as an entry by itself.

        `schema` is one of `magnetar.schema`; without a schema values are bytes.  `options` are
        further fields of ProducerOptions.  The producer also uses partitions that are added to the
        topic later.
        """
        if isinstance(schema, AutoProduce):
            schema = cast("Schema[V]", schema.resolved(await self._latest_schema(topic)))
        chosen = ProducerOptions(
            name=name, batching=batching or UNBATCHED, schema=schema, **options
        )
        encrypting = await opened_for(topic, chosen, self._settings.clock)

        def make(partition_topic: str, index: int) -> PartitionProducer:
            return PartitionProducer(
                self._pool,
                self._settings,
                next(self._ids),
                partition_topic,
                index,
                chosen,
                encrypting,
                self._memory,
            )

        if encrypting is not None:
            self._parts.add(encrypting)
        try:
            producer: Producer[V] = await self._producer(topic, chosen, make, encrypting)
        except BaseException:
            if encrypting is not None:
                await encrypting.close()
            raise
        return producer

    async def _producer(
        self,
        topic: str,
        chosen: ProducerOptions,
        make: Callable[[str, int], PartitionProducer],
        encrypting: Encrypting | None,
    ) -> Producer[Any]:
        names = await self.partitions(topic)
        if chosen.lazy and len(names) > 1:
            parts = [make(name, index) for index, name in enumerate(names)]
            await parts[0].open()  # so that a topic that cannot be written fails here
            self._parts.update(parts)
        else:
            parts = await self._open_parts(names, make)
        interceptors = ProducerInterceptors(topic, chosen.interceptors)
        self._interceptors.add(interceptors)
        routing = Routing(chosen.routing, chosen.hashing)
        producer = Producer(
            topic, parts, routing, chosen.schema, encrypting, interceptors, self._settings.clock
        )
        if TopicName.parse(names[0]).partition >= 0 and TopicName.parse(topic).partition < 0:
            await self._add_later(producer, make)
        return producer

    async def _add_later(
        self, producer: Producer[V], make: Callable[[str, int], PartitionProducer]
    ) -> None:
        async def look() -> None:
            names = await self.partitions(producer.topic)
            producer.add(await self._open_parts(names[len(producer.partitions) :], make))

        producer.attach_background(await self._discovery(look))

    async def _discovery(self, look: Callable[[], Awaitable[None]]) -> TopicDiscovery:
        """Start a discovery that calls `look` periodically; closing the client closes it."""
        discovery = TopicDiscovery(look, self._settings.discovery_s, self._settings.clock)
        await discovery.open()
        self._parts.add(discovery)
        return discovery

    async def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        type: str = "exclusive",
        initial_position: str = "latest",
        schema: Schema[V] | None = None,
        **options: Any,
    ) -> Consumer[V]:
        """Create a consumer; type is exclusive, shared, failover or key_shared.

        `initial_position`, latest or earliest, is where a new subscription starts.  `schema` is
        the schema of the values; without it they are bytes.  `options` are further fields of
        Subscription: among them `queue_size`, and `on_unreadable`, the action for an entry that
        cannot be decoded: fail (the default), skip or discard.
        The consumer also receives, from their beginning, partitions that are added later.
        """
        return await self.subscribe_all(
            [topic],
            subscription,
            type=type,
            initial_position=initial_position,
            schema=schema,
            **options,
        )

    async def subscribe_all(
        self,
        topics: Sequence[str],
        subscription: str,
        *,
        type: str = "exclusive",
        initial_position: str = "latest",
        schema: Schema[V] | None = None,
        **options: Any,
    ) -> Consumer[V]:
        """Create a consumer of several topics, on the same subscription name; see `subscribe`.

        If one of the topics cannot be subscribed, the consumers of the others are closed.
        """
        chosen = subscription_of(subscription, type, initial_position, options, schema)
        if not topics:
            raise ValueError("subscribe_all needs a topic")
        letters = await self._dead_letters(topics[0], chosen)
        consumer = await self._consumer(", ".join(topics), topics, chosen, letters)
        bases = consumer.partitioned_topics()
        if not bases:
            return consumer

        async def look() -> None:
            for base in bases:
                await self._add_partitions(consumer, base, chosen)

        consumer.attach_background(await self._discovery(look))
        return consumer

    async def subscribe_matching(
        self,
        pattern: str,
        subscription: str,
        *,
        type: str = "exclusive",
        initial_position: str = "latest",
        schema: Schema[V] | None = None,
        **options: Any,
    ) -> Consumer[V]:
        """Create a consumer of all topics that match a pattern, now or later; see `subscribe`.

        The pattern is that of `topics_matching`.  New topics are received from their beginning,
        within a second if the broker reports them, else every `discovery_s` seconds;
        consumers of deleted topics are closed.
        """
        found = await self.topics_matching(pattern)
        chosen = subscription_of(subscription, type, initial_position, options, schema)
        chosen = replace(chosen, create_topic=False)
        letters = None
        if chosen.dead_letter is not None or chosen.retry:
            domain, namespace, _ = pattern_of(pattern)
            letters = await self._dead_letters(f"{domain}://{namespace}/matching", chosen)
        consumer = await self._consumer(pattern, found, chosen, letters, leaves_deleted=True)
        moved = set(letters.names.values()) if letters is not None else set()

        async def look() -> None:
            matching = set(await self.topics_matching(pattern)) - moved
            known = set(consumer.sources)
            for topic in sorted(matching - known):
                try:
                    await self._add_partitions(consumer, topic, chosen)
                except NotFound:
                    continue  # it was deleted again
            for topic in sorted(matching & known):
                await self._add_partitions(consumer, topic, chosen)
            await consumer.remove(known - matching - moved)

        discovery = await self._discovery(look)
        watch = TopicWatch(self._pool, pattern, discovery.wake, self._settings.clock)
        consumer.attach_background(discovery, watch)
        self._parts.add(watch)
        await Retry(self._settings).in_time(watch.open, f"watching {pattern}")
        discovery.wake()  # for what came before the watch
        return consumer

    async def _consumer(
        self,
        name: str,
        topics: Sequence[str],
        chosen: Subscription,
        letters: DeadLetters | None,
        leaves_deleted: bool = False,
    ) -> Consumer[Any]:
        inbox = self._inbox(chosen)
        interceptors = ConsumerInterceptors(chosen.interceptors)
        self._interceptors.add(interceptors)
        consumer = Consumer(name, chosen.name, inbox, letters, leaves_deleted, interceptors)
        try:
            for topic in topics:
                parts = await self._consumers(topic, chosen, inbox, Entry.messages, joins=True)
                consumer.add(str(TopicName.parse(topic)), parts)
            if letters is not None and RETRY in letters.names:
                early = replace(chosen, initial_position=pb.CommandSubscribe.Earliest)
                retry_topic = letters.names[RETRY]
                parts = await self._consumers(retry_topic, early, inbox, Entry.messages, joins=True)
                consumer.add(retry_topic, parts)
        except BaseException:
            await asyncio.gather(consumer.close(), return_exceptions=True)
            raise
        return consumer

    def _inbox(self, chosen: Subscription) -> Inbox[Message[Any]]:
        inbox: Inbox[Message[Any]] = Inbox(self._memory, self._settings.clock)
        schemas = self._writer_schemas(chosen)
        if schemas is not None and schemas.are_needed:
            inbox.prepare = schemas.prepare
        return inbox

    def _writer_schemas(self, chosen: Subscription) -> WriterSchemas[Any] | None:
        return WriterSchemas(chosen.schema, self._schema_versions) if chosen.schema else None

    async def schema(self, topic: str, version: bytes | None = None) -> SchemaInfo:
        """Return a version of the topic's schema, or the latest (None); NotFound if it has none."""
        name = str(TopicName.parse(topic).base)
        return await Retry(self._settings).in_time(
            lambda: find_schema(self._pool, name, version), f"reading a schema of {name}"
        )

    async def _latest_schema(self, topic: str) -> SchemaInfo | None:
        try:
            return await self.schema(topic)
        except NotFound:
            return None

    async def _add_partitions(
        self, consumer: Consumer[Any], topic: str, chosen: Subscription
    ) -> None:
        """Add new partitions of a topic to a consumer, which receives them from the beginning."""
        known = consumer.partitions_of(topic)
        names = await self.partitions(topic)
        if known and len(names) <= len(known):
            return
        parts = await self._open_parts(
            [name for name in names if name not in known],
            self._making(from_start(chosen), consumer.inbox, Entry.messages, joins=True),
        )
        consumer.add(topic, parts)

    async def _dead_letters(self, topic: str, chosen: Subscription) -> DeadLetters | None:
        schemas = self._writer_schemas(chosen)
        clock = self._settings.clock
        return await dead_letters_of(topic, chosen, self.exists, self.producer, schemas, clock)

    async def exists(self, topic: str) -> bool:
        """Tell whether a topic of this full name exists, partitioned or not; does not create it."""
        return await Retry(self._settings).in_time(
            lambda: topic_exists(self._pool, topic), f"looking for {topic}"
        )

    async def topics_matching(self, pattern: str) -> list[str]:
        """Return the names of the topics that match a pattern now, in order.

        A partitioned topic is one name, without the partitions.

        The pattern is tenant/namespace/EXPRESSION, with a domain before it or not, or EXPRESSION
        alone for the namespace public/default; the expression must match all of a topic's name
        in the namespace.  ValueError if it is invalid.
        """
        return await Retry(self._settings).in_time(
            lambda: find_topics(self._pool, pattern), f"listing the topics of {pattern}"
        )

    async def reader(
        self,
        topic: str | Sequence[str],
        start: MessageId | int = EARLIEST,
        *,
        inclusive: bool = False,
        queue_size: int = 1000,
        on_unreadable: str = FAIL,
        read_compacted: bool = False,
        name: str | None = None,
        consumer_name: str | None = None,
        max_pending_chunked: int = 10,
        schema: Schema[V] | None = None,
        key_reader: KeyReader | None = None,
        on_undecryptable: str = FAIL,
    ) -> Reader[V]:
        """Create a reader of one or several topics, from after `start`, or at it if `inclusive`.

        `start` is an id, EARLIEST, LATEST, or a time in ms: the reader then starts with the first
        message published at that time or later.  An id is of one partition: name that as topic.
        Partitions that are added to a topic later are read as well, from their beginning.
        `on_unreadable` is the action for an entry that cannot be decoded: fail or skip.
        `read_compacted` gives the last value of each key, as far as the topic is compacted.
        `name` and `consumer_name` are those of the subscription and the consumer in the
        statistics.  At most `max_pending_chunked` chunked messages are incomplete at a time; beyond
        that, the oldest is unreadable.  `schema` is that of the values; without it they are bytes.
        `key_reader` has the private keys, and `on_undecryptable` is the action for an entry that
        they do not decrypt: fail, discard or consume.
        """
        chosen = reading_of(start, inclusive, queue_size, on_unreadable, read_compacted, name)
        chosen = replace(
            chosen,
            max_pending_chunked=max_pending_chunked,
            consumer_name=consumer_name,
            schema=schema,
            key_reader=key_reader,
            on_undecryptable=on_undecryptable,
        )
        topics = [topic] if isinstance(topic, str) else list(topic)
        inbox = self._inbox(chosen)
        parts: list[PartitionConsumer[Message[V]]] = []
        try:
            for one in topics:
                parts += await self._consumers(one, chosen, inbox, Entry.messages, joins=True)
        except BaseException:
            await asyncio.gather(*(part.close() for part in parts), return_exceptions=True)
            raise
        reader = Reader(", ".join(topics), parts, inbox)
        await self._add_later_to_reader(reader, topics, chosen)
        return reader

    async def _add_later_to_reader(
        self, reader: Reader[Any], topics: Sequence[str], chosen: Subscription
    ) -> None:
        """Add partitions created later to a reader, which reads them from the beginning."""
        bases = {str(TopicName.parse(topic)) for topic in topics}
        bases &= {str(TopicName.parse(topic).base) for topic in reader.topics} - {*reader.topics}
        if not bases:
            return
        make = self._making(from_start(chosen), reader.inbox, Entry.messages, joins=True)

        async def look() -> None:
            for base in sorted(bases):
                names = [one for one in await self.partitions(base) if one not in reader.topics]
                reader.add(await self._open_parts(names, make))

        reader.attach_background(await self._discovery(look))

    async def table_view(
        self,
        topic: str,
        *,
        name: str | None = None,
        schema: Schema[V] | None = None,
        key_reader: KeyReader | None = None,
    ) -> TableView[V]:
        """Create a table view of the latest value of each key, complete and kept up to date.

        `name` is the name of its subscription in the statistics.  `key_reader` has the private
        keys for messages that are encrypted.
        """
        is_compacted = TopicName.parse(topic).is_persistent
        reader = await self.reader(
            topic,
            on_unreadable=SKIP,
            read_compacted=is_compacted,
            name=name,
            schema=schema,
            key_reader=key_reader,
        )
        view = TableView(reader, self._settings.clock)
        self._parts.add(view)
        try:
            if is_compacted:
                await view.refresh()
        except BaseException:
            await view.close()
            raise
        return view

    async def entry_reader(
        self,
        topic: str,
        start: MessageId | int = EARLIEST,
        *,
        inclusive: bool = False,
        queue_size: int = 1000,
        key_reader: KeyReader | None = None,
        read_compacted: bool = False,
        create_topic: bool = True,
    ) -> EntryReader:
        """Create a reader of undecoded entries of one partition, or of an unpartitioned topic.

        With a `key_reader` entries are decrypted.  `read_compacted` omits entries that compaction
        has replaced, and marks such messages of a batch (`compacted_out`).
        """
        chosen = reading_of(start, inclusive, queue_size, FAIL, read_compacted)
        chosen = replace(chosen, key_reader=key_reader, create_topic=create_topic)
        inbox: Inbox[Entry] = Inbox(self._memory, self._settings.clock)
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
        """Create a consumer of undecoded entries; the arguments are those of `subscribe`."""
        chosen = subscription_of(subscription, type, initial_position, options)
        inbox: Inbox[Entry] = Inbox(self._memory, self._settings.clock)
        parts = await self._consumers(topic, chosen, inbox, lambda entry: [entry])
        return EntryConsumer(parts, inbox)

    def statistics(self) -> list[ProducerStatistics | ConsumerStatistics]:
        """Return statistics of open producers by topic, then of open consumers by subscription.

        The counts of closed producers and consumers are not included.
        """
        parts = list(self._parts)
        sent = [p.statistics for p in parts if isinstance(p, PartitionProducer) and not p.error]
        received = [c.statistics for c in parts if isinstance(c, PartitionConsumer) and c.is_open]
        return [*by_topic(sent), *by_topic(received)]

    def transaction(self, timeout_s: float = 60.0) -> Transaction:
        """Create a transaction of producers and consumers of this client; use `async with`.

        The coordinator aborts it when it has been open for `timeout_s`.
        """
        txn = Transaction(self._coordinators, self._settings, timeout_s)
        self._parts.add(txn)
        return txn

    async def close(self) -> None:
        """Close everything that the client has opened; raise the first error."""
        try:
            await gather_all(part.close() for part in list(self._parts))
        finally:
            self._interceptors.close()
            await self._pool.close()

    async def abort(self) -> None:
        """Close at once: pending operations fail, and connections end without a command."""
        await self._pool.close()
        parts = list(self._parts)
        await asyncio.gather(*(part.close() for part in parts), return_exceptions=True)
        self._interceptors.close()

    def forked(self, error: Closed) -> None:
        """Close the client in a forked child, without sending anything to the broker."""
        self._pool.forked(error)
        for part in list(self._parts):
            part.forked(error)
        self._parts.clear()

    async def _consumers(
        self,
        topic: str,
        subscription: Subscription,
        inbox: Inbox[T],
        unpack: Callable[[Entry], list[T]],
        joins: bool = False,
    ) -> list[PartitionConsumer[T]]:
        return await self._open_all(topic, self._making(subscription, inbox, unpack, joins))

    def _making(
        self,
        subscription: Subscription,
        inbox: Inbox[T],
        unpack: Callable[[Entry], list[T]],
        joins: bool = False,
    ) -> Callable[[str, int], PartitionConsumer[T]]:
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
                joins,
            )

        return make

    async def _open_all(self, topic: str, make: Callable[[str, int], P]) -> list[P]:
        """Open one part for each partition; if one fails, close all and raise the first error."""
        return await self._open_parts(await self.partitions(topic), make)

    async def _open_parts(self, names: Sequence[str], make: Callable[[str, int], P]) -> list[P]:
        parts = [make(name, TopicName.parse(name).partition) for name in names]
        await open_together(parts)
        self._parts.update(parts)
        return parts
