"""A producer, and the runs of entries that it sends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from magnetar_broker.connection import Connection
from magnetar_broker.errors import BrokerError
from magnetar_broker.publishing.access import SHARED, Claim
from magnetar_proto.sends import encode_receipts

NO_ID = -(1 << 63)
"""Below every sequence id."""


class PublishTarget(Protocol):
    """A topic, as its producers see it."""

    @property
    def max_delay_ms(self) -> int:
        """How long after its publish time a message may be due; 0 is no limit."""

    def publish(self, sends: "Sends") -> None:
        """Take a run of entries; it is answered when it is as safe as the topic promises."""

    def remove_producer(self, producer: "Producer") -> None:
        """A producer left."""

    def bar_producer(self, producer: "Producer", why: str) -> None:
        """When the producer comes back, refuse it once."""


class Sends:
    """A run of entries from one producer that arrived together and is answered together."""

    __slots__ = (
        "chunked",
        "counts",
        "delayed",
        "first_entry",
        "highest_ids",
        "ledger",
        "payloads",
        "producer",
        "sequence_ids",
        "size",
        "top",
    )

    def __init__(self, producer: "Producer") -> None:
        self.producer = producer
        self.sequence_ids: list[int] = []
        self.highest_ids: list[int] = []
        self.counts: list[int] = []
        self.payloads: list[bytes] = []
        self.size = 0
        self.delayed = False
        """Whether some entries may be delayed."""
        self.chunked = False
        """Whether some entries may be chunks."""
        self.ledger = self.first_entry = -1
        self.top = NO_ID
        """The highest sequence id that the run counts for, where that is looked at."""

    def part(self, start: int, stop: int) -> "Sends":
        """The entries from `start` to before `stop` as a run of their own."""
        part = Sends(self.producer)
        part.sequence_ids = self.sequence_ids[start:stop]
        part.highest_ids = self.highest_ids[start:stop]
        part.counts = self.counts[start:stop]
        part.payloads = self.payloads[start:stop]
        part.size = sum(map(len, part.payloads))
        part.delayed, part.chunked = self.delayed, self.chunked
        return part

    def answer(self, receipts: bytes) -> None:
        """Send the receipts of the whole run; none when it failed or nobody waits for them."""
        producer = self.producer
        if receipts and not producer.closed:
            producer.connection.send(receipts)
        producer.connection.published(len(self.payloads), self.size)
        producer.answered(len(self.payloads))

    def answer_if(self, is_stored: bool) -> None:
        """Answer a run that was not appended because it is stored already, if it is."""
        self.answer(self.receipts() if is_stored else b"")

    def receipts(self) -> bytes:
        """A receipt for every entry, at consecutive positions."""
        return encode_receipts(
            self.producer.id, self.sequence_ids, self.highest_ids, self.ledger, self.first_entry
        )


@dataclass(frozen=True)
class ProducerRequest:
    """What a client asks for with PRODUCER, once it is checked and named."""

    producer_id: int
    name: str
    epoch: int = 0
    """Of the client's own count; a larger one replaces its earlier producer."""
    claim: Claim = SHARED
    encrypted: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)
    schema_version: bytes = b""


class Producer:
    """Checked and named; its sends go to the topic as they come, once it is `ready`."""

    def __init__(
        self, connection: Connection, topic: PublishTarget, request: ProducerRequest
    ) -> None:
        self.connection = connection
        self.topic = topic
        self.id = request.producer_id
        self.name = request.name
        self.epoch = request.epoch
        self.claim = request.claim
        self.encrypts = request.encrypted
        self.metadata = request.metadata
        self.schema_version = request.schema_version
        self.must_encrypt = False
        """Whether its messages are refused unless they are encrypted."""
        self.max_message_size = 0
        """Bytes of the largest entry that is taken, chunks apart; 0 is no limit."""
        self.ready = False
        self.topic_epoch: int | None = None
        """The topic's when the producer became ready, if it had one."""
        self.last_sequence_id = -1
        """The highest that the topic knew of this name when the producer came."""
        self.on_turn: Callable[[BrokerError | None], None] | None = None
        """Told when a producer that waits becomes ready, or is refused."""
        self.closed = False
        self.pending = 0
        self._published = 0
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        """Calls to make when so many of the published entries are answered."""

    def publish(self, sends: Sends) -> None:
        """Hand a run to the topic, which answers it."""
        entries = len(sends.payloads)
        self.pending += entries
        self._published += entries
        self.topic.publish(sends)

    def answered(self, entries: int) -> None:
        """So many pending entries were answered or will never be."""
        self.pending -= entries
        while self._waiting and self._waiting[0][0] <= self._published - self.pending:
            _, call = self._waiting.pop(0)
            call()

    def when_answered(self, call: Callable[[], None]) -> None:
        """Call as soon as everything published so far is answered, and before what comes later."""
        if self.pending or self._waiting:
            self._waiting.append((self._published, call))
        else:
            call()

    def bar(self, why: str) -> None:
        """It sent what can never be accepted: if its client reconnects, it is refused once.

        Clients in C++ (and Python) answer the refusal of a message by reconnecting and
        sending it again, for ever; a refused producer they fail, and its messages with it.
        """
        self.topic.bar_producer(self, why)

    def close(self) -> None:
        """Leave the topic; what is pending is still written, but no longer answered."""
        if not self.closed:
            self.closed = True
            self.topic.remove_producer(self)

    def turn(self, refusal: BrokerError | None) -> None:
        """The wait is over: it is ready, or was refused."""
        if refusal is not None:
            self.close()
        if self.on_turn is not None:
            self.on_turn(refusal)

    def fence(self) -> None:
        """Another producer took over: the client learns it from its next SEND."""
        if not self.closed:
            self.close()
            self.connection.drop_producer(self.id)

    def disconnect(self) -> None:
        """The broker ends this producer; the client is told and will come back."""
        if not self.closed:
            self.close()
            self.connection.close_producer(self.id)
