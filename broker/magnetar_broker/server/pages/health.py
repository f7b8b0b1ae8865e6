"""The health check: publishes and consumes a message through a real session, with a time limit."""

import logging
from collections.abc import Callable
from itertools import chain
from typing import cast
from uuid import uuid4

from magnetar_broker.base.errors import BrokerError
from magnetar_broker.base.metadata_keys import namespace_key
from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings, SubscriptionType
from magnetar_broker.server.clients.in_process_client import (
    ClientDisconnected,
    InProcessClient,
    Unexpected,
)
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.topic import Topic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import PROTOCOL_VERSION
from magnetar_proto.deliveries import encode_flow
from magnetar_proto.names import HEARTBEAT, SYSTEM_NAMESPACE, TopicName
from magnetar_proto.sends import encode_send
from magnetar_storage.errors import StorageError, WriterFailed
from magnetar_storage.runtime.execution import Clock, Promise, settling

logger = logging.getLogger(__name__)

LIMIT_SECONDS = 10.0
"""The limit of the whole check: a broker that stores a message more slowly is not healthy."""
NAME = "heartbeat"
"""The name of the producer and of the subscription.  All checks use one name: with deduplication
on, the broker remembers every producer's name."""
ADDRESS = "health-check:0"
PRODUCER_ID = CONSUMER_ID = 1
CANDIDATES = 1000
"""The most topics among which a worker looks for one that it serves."""

Kind = pb.BaseCommand


class Unhealthy(Exception):
    """The health check failed; the text names the step and the reason."""


class HealthCheck:
    """The health check of a process.  Concurrent requests for a check share its result."""

    def __init__(
        self, broker: Broker, serves: Callable[[TopicName], bool] = lambda topic: True
    ) -> None:
        """`serves` looks a topic up, and returns whether this process owns the topic's bundle."""
        self._broker = broker
        self._serves = serves
        self._waiting: list[Promise] = []
        """A promise per caller: cancelling a wait for a shared one would cancel it for all."""
        self._running = False
        self._sends = True
        """Whether the last check had a topic, and so sent a message."""
        self._client: InProcessClient | None = None
        self._step = "starting"

    async def check(self, process: str | None = None) -> None:
        """Wait until a message was delivered; raise `Unhealthy` if that fails or takes too long.

        A worker that serves none of the `CANDIDATES` sends no message: it only reads metadata, and
        logs that.  `process` is not used: it can only name this process.
        """
        trouble = self._broker.engine.store.trouble
        if trouble is not None:
            raise Unhealthy(f"nothing can be stored: {trouble}")
        if (refusal := self._broker.engine.space.refusal) is not None:
            raise Unhealthy(str(refusal))
        outcome = self._broker.engine.clock.promise()
        self._waiting.append(outcome)
        timer = self._broker.engine.clock.later(LIMIT_SECONDS, lambda: self._expire(outcome))
        if not self._running:
            self._running = True
            self._broker.engine.tasks.spawn(self._run())
        try:
            await outcome
        finally:
            timer.cancel()
            self._withdraw(outcome)

    def _expire(self, outcome: Promise) -> None:
        why = f"{self._step}: not done within {LIMIT_SECONDS:g} s"
        settling(outcome)(Unhealthy(why))

    def _withdraw(self, outcome: Promise) -> None:
        """Withdraw a caller that waits no longer; without callers the check ends."""
        if outcome in self._waiting:
            self._waiting.remove(outcome)
            if not self._waiting and self._client is not None:
                self._client.leave()

    async def _run(self) -> None:
        failure: Exception | None = ClientDisconnected()
        # Again for callers that came after a check was given up and before it ended.
        while self._waiting and isinstance(failure, ClientDisconnected):
            failure = await self._failure()
        self._running = False
        waiting, self._waiting = self._waiting, []
        for outcome in waiting:
            settling(outcome)(failure)

    async def _failure(self) -> Exception | None:
        """Run one check, and return its error; None if it succeeded."""
        try:
            await self._read_metadata()
            topic = await self._own_topic()
            self._note(topic)  # promise: a health check that sends no message is logged
            if topic is not None:
                await self._send_through(topic)
        except Exception as error:  # a defect, too, is reported to the callers
            return error
        return None

    async def _read_metadata(self) -> None:
        self._step = "reading metadata"
        try:
            await self._broker.engine.metadata.get(namespace_key("public/default"))
        except StorageError as error:
            raise Unhealthy(f"{self._step}: {error}") from error

    async def _own_topic(self) -> TopicName | None:
        """Return one of the `CANDIDATES` that this process serves; None if it serves none."""
        self._step = "looking up a topic"
        base = _first_topic(self._broker.settings)
        try:
            await self._broker.names.locate(base, authoritative=False)
        except (BrokerError, StorageError) as error:
            raise Unhealthy(f"{self._step}: {error}") from error
        others = (TopicName.parse(f"{base}-{number}") for number in range(1, CANDIDATES))
        return next(filter(self._serves, chain((base,), others)), None)

    def _note(self, topic: TopicName | None) -> None:
        """Log the first of successive checks that have no topic."""
        # promise[without and self._sends]: health checks in one state are logged once
        if topic is None and self._sends:
            logger.warning(
                "health checks of this process send no message and only read metadata, because it "
                "serves none of the %d topics that they can use: its part of namespace %s is empty "
                "or too small; move a bundle of the namespace to it, after a split if there are "
                "too few",
                CANDIDATES,
                SYSTEM_NAMESPACE,
            )
        # promise[never]: a health check that fails again is logged again
        self._sends = topic is not None

    async def _send_through(self, name: TopicName) -> None:
        client = self._client = InProcessClient(self._broker, ADDRESS)
        topic: AnyTopic | None = None
        try:
            sequence_id = await self._open(client, str(name))
            topic = self._broker.topics.get(name)
            await self._publish_and_receive(client, str(name), sequence_id)
        except (Unhealthy, Unexpected) as error:
            raise Unhealthy(f"{self._step}: {_failure_of(topic) or error}") from error
        finally:
            self._client = None
            client.leave()

    async def _open(self, client: InProcessClient, topic: str) -> int:
        """Open a consumer and a producer, and return the sequence id of the next message."""
        self._step = "connecting"
        await client.ask(
            pb.CommandConnect(client_version=NAME, protocol_version=PROTOCOL_VERSION),
            Kind.CONNECTED,
        )
        self._step = f"subscribing to {topic}"
        await client.ask(
            pb.CommandSubscribe(
                topic=topic,
                subscription=NAME,
                subType=_subscription_type(self._broker.settings),
                consumer_id=CONSUMER_ID,
                request_id=1,
                durable=False,
                initialPosition=pb.CommandSubscribe.Latest,
            ),
            Kind.SUCCESS,
        )
        client.send(encode_flow(CONSUMER_ID, 1))
        self._step = f"opening a producer on {topic}"
        opened = await client.ask(
            pb.CommandProducer(
                topic=topic, producer_id=PRODUCER_ID, request_id=2, producer_name=NAME
            ),
            Kind.PRODUCER_SUCCESS,
        )
        return int(opened.last_sequence_id) + 1

    async def _publish_and_receive(
        self, client: InProcessClient, topic: str, sequence_id: int
    ) -> None:
        """Publish, and return when both the receipt and the message have arrived.

        They may arrive in any order, and messages of other checks may come before.
        """
        self._step = f"publishing to {topic}"
        payload = uuid4().bytes
        client.send(_message(sequence_id, payload, self._broker.engine.clock))
        missing: set[int] = {Kind.SEND_RECEIPT, Kind.MESSAGE}
        while missing:
            received = await client.next(*missing)
            if received.kind == Kind.MESSAGE and not received.entry.endswith(payload):
                client.send(encode_flow(CONSUMER_ID, 1))
                continue
            missing.remove(received.kind)
            if received.kind == Kind.SEND_RECEIPT:
                self._step = f"receiving from {topic}"


def _failure_of(topic: AnyTopic | None) -> StorageError | None:
    """Return the error with which the topic's log failed, because a client only gets
    CLOSE_PRODUCER; None if it did not fail."""
    failure = topic.log.failed if isinstance(topic, Topic) else None
    return None if isinstance(failure, WriterFailed) else failure  # closed for another reason


def _first_topic(settings: Settings) -> TopicName:
    domain = "persistent" if settings.enable_persistent_topics else "non-persistent"
    return TopicName.parse(f"{domain}://{SYSTEM_NAMESPACE}/{HEARTBEAT}")


def _subscription_type(settings: Settings) -> "pb.CommandSubscribe.SubType":
    """Return the first enabled subscription type, starting with Exclusive."""
    name = next(kind for kind in SubscriptionType if kind in settings.subscription_types_enabled)
    return cast("pb.CommandSubscribe.SubType", pb.CommandSubscribe.SubType.Value(name))


def _message(sequence_id: int, payload: bytes, clock: Clock) -> bytes:
    """Return the SEND frame of a message."""
    metadata = pb.MessageMetadata(
        producer_name=NAME, sequence_id=sequence_id, publish_time=clock.now_ms()
    )
    return encode_send(PRODUCER_ID, sequence_id, 1, metadata.SerializeToString(), payload)
