"""A producer, and the runs of entries that it sends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from magnetar_broker.base.connection import Connection
from magnetar_broker.base.errors import BrokerError
from magnetar_broker.base.meter import Meter
from magnetar_broker.base.transaction_ids import TxnId
from magnetar_broker.producers.access import SHARED, Claim
from magnetar_proto.entries import COPY_LIMIT
from magnetar_proto.names import TopicName
from magnetar_proto.sends import Receipts, encode_receipts
from magnetar_storage.log.log import LogRun
from magnetar_storage.runtime.compiling import mypyc_attr

NO_ID = -(1 << 63)
"""A sequence id below every other."""


class PublishRules:
    """The demands of a topic's policies and limits on every message."""

    __slots__ = ("max_delay_ms", "max_message_size", "must_encrypt", "transactional", "usual_size")

    def __init__(
        self,
        must_encrypt: bool = False,
        max_message_size: int = 0,
        max_delay_ms: int = 0,
        transactional: bool = False,
    ) -> None:
        self.must_encrypt = must_encrypt
        """Whether messages that are not encrypted are refused."""
        self.max_message_size = max_message_size
        """The largest entry that is accepted, in bytes, except chunks; 0 means no limit."""
        self.max_delay_ms = max_delay_ms
        """The longest delay of a message after its publish time, in ms; 0 means no limit."""
        self.transactional = transactional
        """Whether the topic has seen transactions: then metadata must not pretend to be in one."""
        self.usual_size = COPY_LIMIT
        """The size below which only two things of an entry are checked: its checksum, and on a
        transactional topic whether its metadata names a transaction."""
        if must_encrypt:
            self.usual_size = 0
        elif max_message_size > 0:
            self.usual_size = min(COPY_LIMIT, max_message_size)


class RunSink:
    """The receiver of the runs that a topic's producers send."""

    __slots__ = ()

    def append(self, run: "PublishRun") -> None:
        """Take a run; it is answered when it is as durable as the topic promises."""
        raise NotImplementedError

    def refusal(self, txn: TxnId) -> str:
        """Return why nothing can be published in a transaction; "" if messages can."""
        raise NotImplementedError

    def run_stored(self, run: "PublishRun", error: BaseException | None) -> None:
        """Note that a run that was appended to a log is durable, or that `error` prevented it."""
        raise NotImplementedError


class ProducerRegistry(Protocol):
    """The part of a topic's producers that each of them needs."""

    topic: TopicName
    sink: RunSink

    def remove(self, producer: "Producer") -> None:
        """Remove a producer that has left, or waits no more."""

    def refuse_next(self, name: str, why: str) -> None:
        """Refuse the next producer of this name."""


@mypyc_attr(acyclic=True)
class PublishRun(LogRun):
    """A run of entries from one producer that arrived together and is answered together."""

    __slots__ = ("chunked", "delayed", "highest_ids", "producer", "sequence_ids", "top", "txn")

    def __init__(self, producer: "Producer") -> None:
        # Avoid super().__init__, which would be a further call for each run.
        self.payloads = []
        self.counts = []
        self.size = self.added = 0
        self.log = None
        self.offset = self.ledger = self.first_entry = -1
        self.producer = producer
        self.sequence_ids: list[int] = []
        self.highest_ids: list[int] = []
        self.delayed = False
        """Whether some entries may have a delivery time."""
        self.chunked = False
        """Whether some entries may be chunks."""
        self.top = NO_ID
        """The highest sequence id that deduplication counts for the run."""
        self.txn: TxnId | None = None
        """The transaction of all of its entries; None if they are in none."""

    def part(self, start: int, stop: int) -> "PublishRun":
        """Return the entries from `start` to before `stop` as a run of their own."""
        part = PublishRun(self.producer)
        part.sequence_ids = self.sequence_ids[start:stop]
        part.highest_ids = self.highest_ids[start:stop]
        part.counts = self.counts[start:stop]
        part.payloads = self.payloads[start:stop]
        part.size = sum(map(len, part.payloads))
        part.delayed, part.chunked, part.txn = self.delayed, self.chunked, self.txn
        return part

    def on_durable(self, error: BaseException | None) -> None:
        self.producer.sink.run_stored(self, error)

    def answer(self, receipts: bytes) -> None:
        """Send the receipts of the whole run; none (b"") if it was not stored.  Call it once.

        A closed producer gets none, but its entries are no longer pending.
        """
        producer = self.producer
        if receipts and not producer.closed:
            producer.send(receipts)
        entries = len(self.payloads)
        producer.release_pending(entries, self.size - self.added)
        producer.answered(entries)

    def answer_if(self, is_stored: bool) -> None:
        """Answer a run of copies: with receipts if the entries that they repeat are durable."""
        self.answer(self.receipts() if is_stored else b"")

    def receipts(self) -> bytes:
        """Return a receipt for every entry, at consecutive positions."""
        ids, producer = self.sequence_ids, self.producer
        if len(ids) == 1:
            return producer.receipts.one(ids[0], self.highest_ids[0], self.ledger, self.first_entry)
        return encode_receipts(producer.id, ids, self.highest_ids, self.ledger, self.first_entry)


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


class Producer:
    """A producer that is checked and named; once it is `ready`, its runs go to the topic."""

    def __init__(
        self,
        connection: Connection,
        registry: ProducerRegistry,
        request: ProducerRequest,
        connected_ms: int,
    ) -> None:
        self.connection = connection
        # Attributes of the connection that every run needs.
        self.send = connection.send
        self.release_pending = connection.release_pending
        self.receipts = Receipts(request.producer_id)
        self.gathering: PublishRun | None = None
        """The run to which the session adds what it is receiving."""
        self.id = request.producer_id
        self.name = request.name
        self.epoch = request.epoch
        self.claim = request.claim
        self.encrypts = request.encrypted
        self.metadata = request.metadata
        self.schema_version = request.schema_version
        self.rules = PublishRules()
        """The topic's rules once the producer is ready; `Producers.apply_rules` sets them."""
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
        self.closed = False
        self.pending = 0
        """The number of published entries that are not answered."""
        self.messages_in = self.bytes_in = self.chunks_in = 0
        """The numbers of messages, bytes and chunks published; chunks count as messages, too."""
        self.connected_ms = connected_ms
        self.meter = Meter(3)
        self.sink = registry.sink
        self._registry = registry
        self._entries_published = 0
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        """Calls with the number of published entries that must be answered before each is made."""

    @property
    def topic(self) -> TopicName:
        """The topic to which the producer publishes."""
        return self._registry.topic

    def totals(self) -> tuple[int, int, int]:
        """Return the counters for `meter`: messages and bytes published, and chunks."""
        return self.messages_in, self.bytes_in, self.chunks_in

    def publish(self, run: PublishRun) -> None:
        """Hand a run to the topic, which answers it."""
        entries = len(run.payloads)
        self.pending += entries
        self._entries_published += entries
        self.sink.append(run)

    def answered(self, entries: int) -> None:
        """Count `entries` pending entries as answered, or as never to be answered."""
        self.pending -= entries
        while self._waiting and self._waiting[0][0] <= self._entries_published - self.pending:
            _, call = self._waiting.pop(0)
            call()

    def when_answered(self, call: Callable[[], None]) -> None:
        """Call as soon as everything published so far is answered, and before what comes later."""
        if self.pending or self._waiting:
            self._waiting.append((self._entries_published, call))
        else:
            call()

    def refuse_next(self, why: str) -> None:
        """Refuse the next producer of this name once: a message can never be accepted.

        Clients in C++ (and Python) answer the refusal of a message by reconnecting and sending it
        again, without end.  A producer that is refused they fail, and its messages with it.
        """
        self._registry.refuse_next(self.name, why)

    def close(self) -> None:
        """Leave the topic; pending entries are still stored, but no longer answered."""
        if not self.closed:
            self.closed = True
            self._registry.remove(self)

    def turn(self, refusal: BrokerError | None) -> None:
        """End the wait of the producer: it is ready, or `refusal` is why not."""
        if refusal is not None:
            self.refusal = refusal
            self.close()
        if self.on_turn is not None:
            self.on_turn(refusal)

    def fence(self) -> None:
        """Close the producer silently, for a takeover: the next SEND ends the connection."""
        if not self.closed:
            self.close()
            self.connection.drop_producer(self.id)

    def disconnect(self, new_owner: str = "") -> None:
        """Close the producer and notify its client, which reconnects, to `new_owner` if set."""
        if not self.closed:
            self.close()
            self.connection.close_producer(self.id, new_owner)
