"""A topic's subscriptions by name: who may join them, and how they are created."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace

from magnetar_broker.base.connection import Connection
from magnetar_broker.base.errors import BrokerError, NotAllowed, SubscriptionNotFound, UnknownError
from magnetar_broker.base.wanted import Check, always
from magnetar_broker.dispatch.compacted import Start
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR
from magnetar_broker.subscriptions.read_history import changing
from magnetar_broker.subscriptions.subscribed_topic import SubscribedTopic
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.errors import StorageError

logger = logging.getLogger(__name__)


class Subscriptions(Mapping[str, Subscription]):
    """The subscriptions of a topic: durable ones, and those of connected readers."""

    def __init__(self, topic: SubscribedTopic) -> None:
        self._topic = topic
        self._by_name = {
            cursor.name: self._subscription(cursor.name, cursor)
            for cursor in topic.cursors.cursors.values()
        }
        self._messages_out = self._bytes_out = 0  # of subscriptions that have ended
        self._creating = 0

    def _subscription(self, name: str, cursor: Cursor) -> Subscription:
        self._topic.traffic.changed = True
        return Subscription(self._topic, name, cursor, self._ended)

    def __getitem__(self, name: str) -> Subscription:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def by_name(self) -> dict[str, Subscription]:
        """The subscriptions in a plain dict, which is faster to ask; not to be changed."""
        return self._by_name

    def sent(self) -> tuple[int, int]:
        """Return messages and bytes sent to consumers of any subscription, ended ones included."""
        messages, size = self._messages_out, self._bytes_out
        for subscription in self._by_name.values():
            more, bytes_more = subscription.sent()
            messages += more
            size += bytes_more
        return messages, size

    # Joining ----------------------------------------------------------------------------

    def check(self, request: SubscribeRequest) -> None:
        """Refuse a consumer that exceeds the topic's limit, or whose subscription does not exist
        and must not be created by use.
        """
        present = sum(len(each.consumers) for each in self._by_name.values())
        self._topic.limits.check_consumers(self._topic.name, present)
        # Readers are exempt, as in Pulsar: their subscriptions end with them.
        if request.durable and request.subscription not in self._by_name:
            self._check_auto_creation(request.subscription, SubscriptionNotFound)

    async def subscribe(
        self, connection: Connection, request: SubscribeRequest, check: Check = always
    ) -> Consumer:
        """Join a subscription, which is created if it does not exist."""
        if self._topic.rates is not None:
            self._topic.rates.check_subscribe(
                connection, request.consumer_name, request.consumer_id
            )
        # Look it up first: that reads compacted data, and nothing may be awaited between
        # `_admitted` and `join`.
        if request.read_compacted:
            request = replace(request, compacted_from=await self._compacted_from(request))
        subscription = await self._admitted(request, check)
        if request.rollback_seconds:
            await self._roll_back(subscription, request.rollback_seconds, check)
            subscription = await self._admitted(request, check)  # another may have joined meanwhile
        self._topic.check_open()
        present = (one for each in self._by_name.values() for one in each.consumers)
        self._topic.limits.check_address(self._topic.name, connection.address, present)
        consumer = Consumer(
            connection,
            request.consumer_id,
            subscription,
            request.consumer_name,
            request.priority,
            request.epoch if subscription.has_epochs(request.read_compacted) else -1,
            self._topic.traffic,
            request.key_shared,
            request.metadata,
        )
        # promise: clients that do not ask for broker metadata get none
        consumer.bare = (
            self._topic.log.record.has_broker_metadata and not connection.takes_broker_metadata
        )
        if request.read_compacted:
            consumer.compacted = subscription.compacted
        subscription.join(consumer)
        return consumer

    async def _roll_back(self, subscription: Subscription, seconds: int, check: Check) -> None:
        """Seek back by the requested time; if that fails, the consumer still joins."""
        since_ms = self._topic.log.engine.clock.now_ms() - seconds * 1000
        try:
            await subscription.seek_to_time(since_ms, check)
        except (UnknownError, StorageError) as error:
            name, topic = subscription.name, self._topic.name
            logger.warning(
                "subscription %s of %s was not rolled back by %d seconds: %s",
                name, topic, seconds, error,
            )  # fmt: skip

    async def _admitted(self, request: SubscribeRequest, check: Check) -> Subscription:
        """Return the subscription, with room for one more consumer of the requested type."""
        while True:
            self.check(request)
            subscription = await self._wanted(request, check)
            await subscription.admit(request)
            if self._by_name.get(request.subscription) is subscription:
                self.check(request)  # others may have joined meanwhile
                return subscription
            # The subscription ended while we waited, as with its last consumer: create it again.

    async def _wanted(self, request: SubscribeRequest, check: Check) -> Subscription:
        self._topic.check_open()
        name = request.subscription
        durable = name in self._topic.cursors.cursors
        subscription = self._by_name.get(name)
        # A name has one cursor, which is either stored or in memory only.
        if request.durable != durable and (durable or subscription is not None):
            raise NotAllowed(
                f"subscription {name} exists and is {'durable' if durable else 'not durable'}: "
                "use another name"
            )
        if subscription is not None:
            return subscription
        if not request.durable:
            self._check_room()
        if request.read_compacted:
            return await self._create_compacted(request, check)
        start = self._start_offset(request)
        if not request.durable:
            subscription = self._subscription(name, Cursor(start - 1))
            self._by_name[name] = subscription
            return subscription
        return await self.create(name, start, request.properties, check)

    async def _create_compacted(self, request: SubscribeRequest, check: Check) -> Subscription:
        """Return a new subscription, which may begin before the log's first entry."""
        log, name = self._topic.log, request.subscription
        start = Start.at(request.compacted_from, log)
        if request.durable:
            properties = request.properties | start.as_properties()
            return await self.create(name, start.mark_delete + 1, properties, check)
        subscription = self._subscription(name, Cursor(start.mark_delete))
        subscription.compacted.start = start
        self._by_name[name] = subscription
        return subscription

    async def _compacted_from(self, request: SubscribeRequest) -> int:
        """Return the offset at which a new subscription begins; a reader gets all by default."""
        log, start = self._topic.log, None if request.durable else request.start
        if start is not None and not start.is_latest:
            offset = await self._topic.compaction.offset_at(start)
            if offset < log.end:
                return offset
        return 0 if request.earliest or (start is None and not request.durable) else log.end

    def _start_offset(self, request: SubscribeRequest) -> int:
        log, start = self._topic.log, request.start
        if start is not None and not request.durable and not start.is_latest:
            offset = log.seek(start.ledger, start.entry)
            if offset < log.end:
                return offset
            # Beyond the last message the initial position decides, as in Pulsar.
        return log.first_offset if request.earliest else log.end

    # Creating and ending ------------------------------------------------------------------

    def _check_room(self) -> None:
        """Raise `NotAllowed` if one more would exceed the topic's limit."""
        present = len(self._by_name) + self._creating
        self._topic.limits.check_subscriptions(self._topic.name, present)

    async def create(
        self, name: str, start: int, properties: dict[str, str], check: Check = always
    ) -> Subscription:
        """Return a durable subscription that begins at offset `start`; on disk when this returns.

        If it exists already, that one.  `NotAllowed` if it would exceed the topic's limit.
        """
        cursors = self._topic.cursors
        cursor = cursors.cursors.get(name)
        if cursor is None:
            check()  # promise: no subscription is created for a client that has left
            # Compaction's own cursor is not a user's subscription: it must not fail for a limit.
            if name != COMPACTION_CURSOR:
                self._check_room()
            self._creating += 1
            if start > self._topic.log.first_offset:
                # promise: messages before the start of a subscription still count as unread
                changing(self._topic).begin(name, start)
            try:
                cursor = await cursors.create(name, start - 1, properties)
            finally:
                self._creating -= 1
        else:  # another request is creating it: it may not be durable yet
            await cursors.durable()
        if cursors.cursors.get(name) is not cursor:  # it was deleted meanwhile
            return await self.create(name, start, properties, check)
        return self._by_name.setdefault(name, self._subscription(name, cursor))

    async def ensure(self, name: str, check: Check = always) -> None:
        """Create a subscription that a producer names, at the log's start, unless it exists."""
        if name not in self._by_name:
            self._check_auto_creation(name, NotAllowed)
            await self.create(name, self._topic.log.first_offset, {}, check)

    def _check_auto_creation(self, name: str, refusal: type[BrokerError]) -> None:
        if not self._topic.limits.auto_subscription:
            raise refusal(
                f"subscription {name} does not exist on {self._topic.name} and "
                "allowAutoSubscriptionCreation is off: create it first"
            )

    def _ended(self, subscription: Subscription) -> bool:
        """Take an ended subscription off the list; False if it was not on it any more."""
        if self._by_name.get(subscription.name) is not subscription:
            return False
        self._topic.traffic.changed = True
        del self._by_name[subscription.name]
        messages, size = subscription.sent()
        self._messages_out += messages
        self._bytes_out += size
        return True
