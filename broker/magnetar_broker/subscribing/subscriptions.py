"""A topic's subscriptions by name: who may join one, and how they begin and end."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from magnetar_broker.compaction.rules import COMPACTION_CURSOR
from magnetar_broker.connection import Connection
from magnetar_broker.dispatch.compacted import Start
from magnetar_broker.errors import BrokerError, NotAllowed, SubscriptionMissing, UnknownTrouble
from magnetar_broker.subscribing.consumer import Consumer, SubscribeRequest
from magnetar_broker.subscribing.subscribed_topic import SubscribedTopic
from magnetar_broker.subscribing.subscription import Subscription
from magnetar_storage.cursor import Cursor
from magnetar_storage.errors import StorageError

logger = logging.getLogger(__name__)


class Home(SubscribedTopic, Protocol):
    """A topic, as the list of its subscriptions sees it."""

    def check_open(self) -> None:
        """`NotReady` once it is being closed."""


class Subscriptions(Mapping[str, Subscription]):
    """The durable ones, and those of readers that are connected."""

    def __init__(self, topic: Home) -> None:
        self._topic = topic
        self._by_name = {
            cursor.name: Subscription(topic, cursor.name, cursor)
            for cursor in topic.cursors.cursors.values()
        }
        self._messages_out = self._bytes_out = 0  # through those that have ended
        self._coming = 0  # that are being created

    def __getitem__(self, name: str) -> Subscription:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def sent(self) -> tuple[int, int]:
        """Messages and bytes that went out through any of them, those that have ended too."""
        messages, size = self._messages_out, self._bytes_out
        for subscription in self._by_name.values():
            more, bytes_more = subscription.sent()
            messages += more
            size += bytes_more
        return messages, size

    # Joining ----------------------------------------------------------------------------

    def check(self, request: SubscribeRequest) -> None:
        """Refuse a consumer too many, and one of a subscription that may not be created."""
        present = sum(len(each.consumers) for each in self._by_name.values())
        self._topic.limits.check_consumers(self._topic.name, present)
        if request.durable and request.subscription not in self._by_name:
            self._check_auto_creation(request.subscription, SubscriptionMissing)

    async def subscribe(self, connection: Connection, request: SubscribeRequest) -> Consumer:
        """Join a subscription, creating it if need be."""
        if self._topic.rates is not None:
            self._topic.rates.check_subscribe(connection, request)
        if request.read_compacted:
            request = replace(request, compacted_from=await self._compacted_from(request))
        subscription = await self._admitted(request)
        if request.rollback_seconds:
            await self._roll_back(subscription, request.rollback_seconds)
            subscription = await self._admitted(request)  # somebody may have come meanwhile
        self._topic.check_open()
        present = (one for each in self._by_name.values() for one in each.consumers)
        self._topic.limits.check_address(self._topic.name, connection.address, present)
        consumer = Consumer(
            connection,
            request.consumer_id,
            subscription,
            request.consumer_name,
            request.priority,
            request.epoch if subscription.dispatcher.exclusive_acks else -1,
            self._topic.log.engine.clock.now_ms(),
            request.key_shared,
            request.metadata,
        )
        if request.read_compacted:
            consumer.compacted = subscription.compacted
        subscription.join(consumer)
        return consumer

    async def _roll_back(self, subscription: Subscription, seconds: int) -> None:
        """Move the cursor to where it was so long ago; when that fails it stays where it is."""
        since_ms = self._topic.log.engine.clock.now_ms() - seconds * 1000
        try:
            await subscription.seek_to_time(since_ms)
        except (UnknownTrouble, StorageError) as error:
            name, topic = subscription.name, self._topic.name
            logger.warning("%s of %s was not rolled back: %s", name, topic, error)

    async def _admitted(self, request: SubscribeRequest) -> Subscription:
        """The subscription, with room for one more consumer of the type asked for."""
        while True:
            self.check(request)
            subscription = await self._wanted(request)
            await subscription.admit(request)
            if self._by_name.get(request.subscription) is subscription:
                self.check(request)  # others may have come meanwhile
                return subscription
            # It ended while we waited, for instance with its last consumer: begin anew.

    async def _wanted(self, request: SubscribeRequest) -> Subscription:
        self._topic.check_open()
        name = request.subscription
        durable = name in self._topic.cursors.cursors
        subscription = self._by_name.get(name)
        if request.durable != durable and (durable or subscription is not None):
            raise NotAllowed(
                f"subscription {name} is {'durable' if durable else 'not durable'}"
                " already; use another name"
            )
        if subscription is not None:
            return subscription
        if not request.durable:
            self._check_room()
        if request.read_compacted:
            return await self._create_compacted(request)
        start = self._start_offset(request)
        if not request.durable:
            subscription = Subscription(self._topic, name, Cursor(start - 1))
            self._by_name[name] = subscription
            return subscription
        return await self.create(name, start, request.properties)

    async def _create_compacted(self, request: SubscribeRequest) -> Subscription:
        """A subscription that begins where the log may have nothing any more."""
        log, name = self._topic.log, request.subscription
        start = Start.at(request.compacted_from, log)
        if request.durable:
            properties = request.properties | start.as_properties()
            return await self.create(name, start.mark_delete + 1, properties)
        subscription = Subscription(self._topic, name, Cursor(start.mark_delete))
        subscription.compacted.start = start
        self._by_name[name] = subscription
        return subscription

    async def _compacted_from(self, request: SubscribeRequest) -> int:
        """Where a new subscription begins; who says nothing gets everything."""
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

    # Beginning and ending -----------------------------------------------------------------

    def _check_room(self) -> None:
        """`NotAllowed` unless there may be one more."""
        present = len(self._by_name) + self._coming
        self._topic.limits.check_subscriptions(self._topic.name, present)

    async def create(self, name: str, start: int, properties: dict[str, str]) -> Subscription:
        """A durable subscription that begins at offset `start`; on disk when this returns.

        `NotAllowed` if it would be one too many.
        """
        cursors = self._topic.cursors
        cursor = cursors.cursors.get(name)
        if cursor is None:
            if name != COMPACTION_CURSOR:
                self._check_room()
            self._coming += 1
            try:
                cursor = await cursors.create(name, start - 1, properties)
            finally:
                self._coming -= 1
        else:  # another request is creating it right now
            await cursors.durable()
        if cursors.cursors.get(name) is not cursor:  # it was deleted meanwhile
            return await self.create(name, start, properties)
        return self._by_name.setdefault(name, Subscription(self._topic, name, cursor))

    async def ensure(self, name: str) -> None:
        """A producer names a subscription that must exist: at the start, if it is new."""
        if name not in self._by_name:
            self._check_auto_creation(name, NotAllowed)
            await self.create(name, self._topic.log.first_offset, {})

    def _check_auto_creation(self, name: str, refusal: type[BrokerError]) -> None:
        if not self._topic.limits.auto_subscription:
            raise refusal(
                f"subscription {name} does not exist on {self._topic.name} and "
                "allowAutoSubscriptionCreation is off: create it first"
            )

    async def remove(self, subscription: Subscription) -> None:
        """Delete a subscription; durable on return, whoever asked first."""
        if not self.forget(subscription):
            await subscription.settled()
        elif subscription.durable:
            await self._topic.cursors.delete(subscription.name)

    def forget(self, subscription: Subscription) -> bool:
        """A subscription ended; False if it had done so before."""
        if self._by_name.get(subscription.name) is not subscription:
            return False
        del self._by_name[subscription.name]
        messages, size = subscription.sent()
        self._messages_out += messages
        self._bytes_out += size
        return True
