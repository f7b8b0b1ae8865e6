"""Joins the chunks of messages that are larger than an entry. Pure: time is an argument."""

from dataclasses import dataclass, field

from magnetar.messages import MAX_INFLATED_BYTES, Entry
from magnetar_proto.entries import message_start


class ChunkedEntry(Entry):
    """The joined chunks of one message; the position is that of the last chunk."""

    __slots__ = ("_payload", "chunks")

    def __init__(self, chunks: list[Entry]) -> None:
        last = chunks[-1]
        self.topic = last.topic
        self.ledger, self.entry, self.partition = last.ledger, last.entry, last.partition
        self.redelivery_count = last.redelivery_count
        self.ack_set = ()
        self.source = last.source
        self.reader = None
        self.metadata = last.metadata
        self._body_start = message_start(last._data)
        self._data = last._data[: self._body_start]
        self.is_chunk = False
        self.is_encrypted = last.is_encrypted
        self.is_taken_encrypted = False
        self.chunks = [chunk.position for chunk in chunks]
        self._payload = b"".join([chunk.payload() for chunk in chunks])

    def payload(self) -> bytes:
        return self._payload

    @property
    def size(self) -> int:
        return len(self._payload)


@dataclass(slots=True)
class _Incomplete:
    """A message of which some chunks have not arrived."""

    started_s: float
    total: int
    chunks: list[Entry] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class Joined:
    """The outcome of adding a chunk."""

    entry: ChunkedEntry | None = None
    """The message that this chunk completes; None if chunks are missing."""
    orphan: str = ""
    """The reason why this chunk cannot belong to any message; empty if it does."""
    given_up: list[tuple[list[Entry], str]] = field(default_factory=list)
    """Chunks of messages that will not become complete, and the reason."""
    displaced: list[tuple[list[Entry], str]] = field(default_factory=list)
    """Chunks of messages that were dropped to make room, each with the reason."""
    superfluous: list[Entry] = field(default_factory=list)
    """Chunks that arrived twice, for example because a producer resent them."""


class ChunkJoiner:
    """The chunks of one partition; at most `max_pending` messages are incomplete."""

    def __init__(self, max_pending: int, expiry_s: float) -> None:
        self._max_pending = max_pending
        self._expiry_s = expiry_s
        # By uuid, oldest first.
        self._pending: dict[str, _Incomplete] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, chunk: Entry, now_s: float) -> Joined:
        """Add a chunk that was received, and return the outcome."""
        about = chunk.metadata
        outcome = Joined()
        # The size is what the producer claims, and would be held in memory.
        if about.total_chunk_msg_size > MAX_INFLATED_BYTES:
            outcome.orphan = f"is part of a chunked message of {about.total_chunk_msg_size} bytes"
            return outcome
        # promise[== 0 -> == 0 and about.uuid not in self._pending]: a first chunk begins its
        #   message again
        if about.chunk_id == 0:
            self._begin(chunk, now_s, outcome)
        pending = self._pending.get(about.uuid)
        if pending is None:  # the first chunk was given up, displaced or acknowledged
            outcome.orphan = f"is {_name(chunk)} of a chunked message; those before did not come"
            return outcome
        # A producer that has reconnected resends chunks whose receipts it lost.
        if about.chunk_id < len(pending.chunks):
            outcome.superfluous.append(chunk)
            return outcome
        pending.size += chunk.size
        # promise[without about.chunk_id > len(pending.chunks) or]: a message with a gap is not
        #   complete
        if about.chunk_id > len(pending.chunks) or pending.size > pending.total:
            del self._pending[about.uuid]
            outcome.given_up.append((pending.chunks, f"was followed by {_name(chunk)}"))
            outcome.orphan = f"is {_name(chunk)} of a chunked message; those before did not come"
            return outcome
        pending.chunks.append(chunk)
        if len(pending.chunks) == about.num_chunks_from_msg:
            del self._pending[about.uuid]
            outcome.entry = ChunkedEntry(pending.chunks)
        return outcome

    def _begin(self, chunk: Entry, now_s: float, outcome: Joined) -> None:
        uuid = chunk.metadata.uuid
        former = self._pending.pop(uuid, None)
        if former is not None:
            # Sent again, or by a later producer of the same name: the chunks must not be mixed.
            outcome.superfluous += former.chunks
        while len(self._pending) >= self._max_pending:
            oldest = next(iter(self._pending))
            why = f"was incomplete, as were {self._max_pending} others (max_pending_chunked)"
            outcome.displaced.append((self._pending.pop(oldest).chunks, why))
        self._pending[uuid] = _Incomplete(now_s, chunk.metadata.total_chunk_msg_size)

    def next_expiry_s(self) -> float | None:
        """Return the time at which the oldest incomplete message expires; None if there is none."""
        for pending in self._pending.values():
            return pending.started_s + self._expiry_s
        return None

    def expired(self, now_s: float) -> list[tuple[list[Entry], str]]:
        """Give up messages incomplete for too long; return their chunks, and the reason."""
        given_up = []
        for uuid, pending in list(self._pending.items()):
            if pending.started_s + self._expiry_s > now_s:
                break
            del self._pending[uuid]
            given_up.append((pending.chunks, f"was incomplete for {self._expiry_s:g} s"))
        return given_up

    def clear(self) -> None:
        """Drop all chunks, because they will be delivered again."""
        self._pending.clear()


def _name(chunk: Entry) -> str:
    return f"part {chunk.metadata.chunk_id + 1}/{chunk.metadata.num_chunks_from_msg}"
