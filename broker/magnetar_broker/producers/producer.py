"""A producer: its name, its wait for the topic, and its end.

How its messages get into the topic is in `appender`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from magnetar_broker.base.connection import Connection
from magnetar_broker.base.errors import BrokerError
from magnetar_broker.base.meter import Meter
from magnetar_broker.producers.access import SHARED, Claim
from magnetar_broker.producers.appender import Publisher, RunSink
from magnetar_proto.names import TopicName


class ProducerRegistry(Protocol):
    """The part of a topic's producers that each producer uses."""

    topic: TopicName
    sink: RunSink

    def remove(self, producer: "Producer") -> None:
        """Remove a producer that has left, or waits no more."""

    def refuse_next(self, name: str, why: str) -> None:
        """Refuse the next producer of this name once; `why` is the reason that it is told."""


@dataclass(frozen=True)
class ProducerRequest:
    """The request of a client to open a producer, once it is checked and named."""

    producer_id: int
    name: str
    epoch: int = 0
    """The epoch that the client counts; a larger one replaces its earlier producer."""
    claim: Claim = SHARED
    encrypted: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    schema_version: bytes = b""


class Producer(Publisher):
    """A producer that is checked and named; once it is `ready`, its runs go to the topic."""

    __slots__ = (
        "_registry",
        "claim",
        "connected_ms",
        "encrypts",
        "epoch",
        "last_sequence_id",
        "metadata",
        "meter",
        "on_turn",
        "ready",
        "refusal",
        "schema_version",
        "takes_runs",
        "topic_epoch",
    )

    def __init__(
        self,
        connection: Connection,
        registry: ProducerRegistry,
        request: ProducerRequest,
        connected_ms: int,
    ) -> None:
        super().__init__(connection, registry.sink, request.producer_id, request.name)
        self.epoch = request.epoch
        self.claim = request.claim
        self.encrypts = request.encrypted
        self.metadata = request.metadata
        self.schema_version = request.schema_version
        self.ready = False
        self.takes_runs = False
        """Whether sent messages are published: from when it is ready until the topic is closed."""
        self.topic_epoch: int | None = None
        """The topic's epoch when the producer became ready; None if the topic had none."""
        self.last_sequence_id = -1
        """The highest durable sequence id of this name when it became ready; -1 if none."""
        self.on_turn: Callable[[BrokerError | None], None] | None = None
        """Called when a producer that waits becomes ready (None), or is refused."""
        self.refusal: BrokerError | None = None
        """The reason why the producer was refused while it waited."""
        self.connected_ms = connected_ms
        self.meter = Meter(3)
        self._registry = registry

    @property
    def topic(self) -> TopicName:
        """The topic to which the producer publishes."""
        return self._registry.topic

    def totals(self) -> tuple[int, int, int]:
        """Return the counters for `meter`: messages and bytes published, and chunks."""
        return self.messages_in, self.bytes_in, self.chunks_in

    def refuse_next(self, why: str) -> None:
        # Clients in C++ (and Python) answer the refusal of a message by reconnecting and sending it
        # again, without end.  A producer that is refused they fail, and its messages with it.
        self._registry.refuse_next(self.name, why)

    def close(self) -> None:
        """Leave the topic; pending entries are still stored, but no longer answered."""
        if not self.closed:
            self.closed = True
            # Now, not when pending entries are stored: the name is free for a reconnecting client.
            self._registry.remove(self)

    def turn(self, refusal: BrokerError | None) -> None:
        """End the wait of the producer: it is ready, or `refusal` is why not."""
        if refusal is not None:
            self.refusal = refusal
            # Close before the call: the client is refused only when the name is free again.
            self.close()
        if self.on_turn is not None:
            self.on_turn(refusal)

    def fence(self) -> None:
        """Close the producer silently, for a takeover: the next SEND ends the connection."""
        if not self.closed:
            self.close()
            # Without a notice: the client would reconnect, and take the topic back.
            self.connection.drop_producer(self.id)

    def disconnect(self, new_owner: str = "") -> None:
        """Close the producer and notify its client, which reconnects, to `new_owner` if set."""
        if not self.closed:
            self.close()
            self.connection.close_producer(self.id, new_owner)
