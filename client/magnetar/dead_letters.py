"""The retry and dead letter topics of a subscription."""

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.log_fields import about
from magnetar.clock import Clock
from magnetar.consuming.options import DeadLetterPolicy, Subscription
from magnetar.messages import Message, Outgoing
from magnetar.producer import Producer
from magnetar.schema.base import Encoded
from magnetar.schema.versions import WriterSchemas
from magnetar_proto.names import TopicName

logger = logging.getLogger(__name__)

RETRY, DLQ = "RETRY", "DLQ"
# Properties of messages in these topics, with the names that Pulsar's clients use.
REAL_TOPIC = "REAL_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
ORIGIN_MESSAGE_ID_OLD = "ORIGIN_MESSAGE_IDY_TIME"
RECONSUME_TIMES = "RECONSUMETIMES"
DELAY_TIME = "DELAY_TIME"


def new_name(topic: str, subscription: str, kind: str) -> str:
    """Return the name of the retry (RETRY) or dead letter (DLQ) topic."""
    return f"{TopicName.parse(topic).base}-{subscription}-{kind}"


def old_name(topic: str, subscription: str, kind: str) -> str:
    """Return the name in clients before Pulsar 2.8; it is used if such a topic exists."""
    name = TopicName.parse(topic)
    return f"{name.domain}://{name.tenant}/{name.namespace}/{subscription}-{kind}"


class DeadLetters:
    """Moves messages of one subscription to its retry topic or its dead letter topic.

    `open_producer(kind, topic)` is called with RETRY or DLQ before the first message goes there.
    """

    def __init__(
        self,
        policy: DeadLetterPolicy | None,
        names: Mapping[str, str],
        open_producer: Callable[[str, str], Awaitable[Producer]],
        schemas: WriterSchemas[Any] | None,
        clock: Clock,
    ) -> None:
        self._policy = policy or DeadLetterPolicy()
        self.names = names
        """The names of the topics, by RETRY and DLQ."""
        self._gives_up = policy is not None
        self._open_producer = open_producer
        self._schemas = schemas
        self._clock = clock
        self._open: dict[str, Producer] = {}

    async def move(self, messages: Sequence[Message]) -> None:
        """Send messages to the dead letter topic, and acknowledge them; log and raise failures."""
        for message in messages:
            await self._move(DLQ, message, _origin(message), 0)
            message.source.ack((message,))

    async def retry(
        self, message: Message, delay_s: float, properties: Mapping[str, str], up_to: bool
    ) -> None:
        """Send a message to the retry topic, or after enough retries to the dead letter topic.

        It is then acknowledged, or with `up_to` everything up to it.
        """
        about = _origin(message) | dict(properties)
        rounds = int(about.get(RECONSUME_TIMES, "0")) + 1
        delay_ms = max(round(delay_s * 1000), 0)
        about[RECONSUME_TIMES] = str(rounds)
        about[DELAY_TIME] = str(delay_ms)
        if self._gives_up and rounds > self._policy.max_redeliveries:
            await self._move(DLQ, message, about, 0)
        else:
            await self._move(RETRY, message, about, delay_ms)
        if up_to:
            message.source.ack_up_to(message)
        else:
            message.source.ack((message,))

    async def _move(
        self, kind: str, message: Message, properties: dict[str, str], delay_ms: int
    ) -> None:
        try:
            producer = await self._producer(kind)
            info = await self._schemas.info_of(message) if self._schemas is not None else None
            await producer.send_message(
                Outgoing(
                    message.data,
                    schema=Encoded(info) if info is not None else None,
                    is_null=message.is_null,
                    key=message.key,
                    ordering_key=message.ordering_key or None,
                    properties=properties,
                    event_time_ms=message.event_time_ms,
                    deliver_at_ms=self._clock.now_ms() + delay_ms if delay_ms else 0,
                )
            )
        except MagnetarError as error:
            fields = about(
                topic=message.topic, message_id=message.id.text(), target=self.names[kind]
            )
            what = "%s could not be moved to %s: %s"
            logger.warning(what, message, self.names[kind], error, extra=fields)
            raise

    async def _producer(self, kind: str) -> Producer:
        if kind not in self._open:
            producer = await self._open_producer(kind, self.names[kind])
            if kind in self._open:  # opened by two messages at a time
                await producer.close()
            else:
                self._open[kind] = producer
        return self._open[kind]

    async def close(self) -> None:
        """Close the producers."""
        while self._open:
            await self._open.popitem()[1].close()


def _origin(message: Message) -> dict[str, str]:
    """Return the message's properties, extended by its original topic and id."""
    properties = message.properties
    properties.setdefault(REAL_TOPIC, message.topic)
    properties.setdefault(ORIGIN_MESSAGE_ID, message.id.text())
    properties.setdefault(ORIGIN_MESSAGE_ID_OLD, properties[ORIGIN_MESSAGE_ID])
    return properties


async def dead_letters_of(
    topic: str,
    chosen: Subscription,
    exists: Callable[[str], Awaitable[bool]],
    open_producer: Callable[..., Awaitable[Producer]],
    schemas: WriterSchemas[Any] | None,
    clock: Clock,
) -> DeadLetters | None:
    """Return the retry and dead letter topics of a subscription; None if it uses neither.

    `exists` tells whether a topic exists, and `open_producer` has the arguments of
    `Client.producer`.
    """
    if chosen.dead_letter is None and not chosen.retry:
        return None
    policy = chosen.dead_letter or DeadLetterPolicy()
    named = {DLQ: policy.dead_letter_topic, RETRY: policy.retry_topic}
    names = {}
    for kind in (DLQ, RETRY) if chosen.retry else (DLQ,):
        old = old_name(topic, chosen.name, kind)
        names[kind] = named[kind] or new_name(topic, chosen.name, kind)
        if not named[kind] and await exists(old):
            names[kind] = old
    options = {DLQ: policy.dead_letter_producer, RETRY: policy.retry_producer}
    consumer_name = chosen.consumer_name or uuid.uuid4().hex[:5]

    async def open_one(kind: str, target: str) -> Producer:
        first: dict[str, Any] = {
            "name": f"{target}-{consumer_name}",
            "batching": None,
            "chunking": True,
        }
        if kind == DLQ:
            first["initial_subscription"] = policy.initial_subscription
        return await open_producer(target, **(first | dict(options[kind])))

    return DeadLetters(chosen.dead_letter, names, open_one, schemas, clock)
