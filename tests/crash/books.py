"""What raw clients were promised, compactly: a few bytes an entry; and the verdict over it."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from crash.record import few

DELIVERED, ACKED = 1, 2
Place = tuple[int, int]
"""(ledger, entry)"""


class Stored(NamedTuple):
    """An entry as a reader found it."""

    producer: str
    number: int
    place: Place
    messages: int


@dataclass
class Span:
    """Numbers that a producer sent over one connection: first, and behind the last ones."""

    first: int
    answered: int
    sent: int


class Written:
    """The entries of one producer; nothing is sent again, so each life has numbers of its own.

    Of a span the broker must have kept everything answered, and of what it did not answer the
    beginning, without a gap.
    """

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.next = 0
        self.problems: list[str] = []
        self._spans: list[Span] = []
        self._ledgers, self._entries = array("q"), array("q")

    @property
    def sent(self) -> int:
        """How many were sent."""
        return sum(span.sent - span.first for span in self._spans)

    @property
    def receipts(self) -> int:
        """How many receipts came."""
        return sum(span.answered - span.first for span in self._spans)

    @property
    def settled(self) -> int:
        """Below it everything is stored, or will never be.

        Not below what a new connection begins with: what the former one has sent may still be on
        its way to the disk.  It is behind it when something is answered over the new one.
        """
        answered = (span.answered for span in self._spans if span.answered > span.first)
        return max(answered, default=0)

    def begin(self) -> None:
        """A new connection."""
        self._spans.append(Span(self.next, self.next, self.next))

    def send(self) -> int:
        """The number of the next entry, which is sent now."""
        self.next += 1
        self._spans[-1].sent = self.next
        self._ledgers.append(-1)
        self._entries.append(-1)
        return self.next - 1

    def receipt(self, number: int, place: Place) -> None:
        """A receipt came over the present connection."""
        span = self._spans[-1]
        if number != span.answered or number >= span.sent:
            self.problems.append(f"receipt for {number} instead of {span.answered}")
        span.answered = number + 1
        self._ledgers[number], self._entries[number] = place

    def surely_stored(self, number: int, later: int) -> bool:
        """Whether it must be there, given that a later one is."""
        span = next(span for span in reversed(self._spans) if span.first <= number)
        return number < span.answered or later < span.sent

    def check(self, stored: Iterable[tuple[int, Place]]) -> Iterator[str]:
        """What is wrong with the entries that a reader found, in their order."""
        yield from self.problems
        spans = iter(self._spans)
        span, expected = Span(0, 0, 0), 0
        for number, place in stored:
            while number >= span.sent and expected >= span.answered:
                following = next(spans, None)
                if following is None:
                    break
                span, expected = following, following.first
            if number != expected or number >= span.sent:
                yield f"{number} is stored where {expected} of {span} is expected"
                return
            expected += 1
            receipt = self._ledgers[number], self._entries[number]
            if receipt[0] >= 0 and receipt != place:
                yield f"{number} is at {place}, its receipt named {receipt}"
        if expected < span.answered:
            yield f"lost after their receipts: {expected} and more of {span}"
        for rest in spans:
            if rest.answered > rest.first:
                yield f"lost after their receipts: all of {rest}"


@dataclass
class AckBook:
    """What came to one subscription and which of its acknowledgements were answered."""

    subscription: str
    alarm: Callable[[str], None]
    """Called with the first of `again`."""
    again: list[str] = field(default_factory=list)
    """Messages that came again though the answer to their acknowledgement had come before."""
    mark: tuple[int, int] = (-1, -1)
    """Everything up to here was acknowledged cumulatively, `part` of the next entry too."""
    part: tuple[Place, int] | None = None
    mark_life: int = -1
    mark_moves: int = 0
    """So many moves of the topic had begun when that was answered."""
    _states: dict[int, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    _parts: dict[Place, int] = field(default_factory=dict)
    _moves: dict[int, "array[int]"] = field(default_factory=lambda: defaultdict(lambda: array("I")))
    """By ledger and entry, the same of its last individual acknowledgement."""

    def came(self, place: Place, unacked: int, life: int, moves: int = 0) -> bool:
        """Messages `unacked` (a mask) of an entry came; whether some of it had come before.

        `moves` of the topic were over before the connection was made.  If one has begun since, the
        connection may bring what a former owner sent, though the next one has sent it too, and its
        acknowledgement was answered.
        """
        ledger, entry = place
        states = self._states[ledger]
        if entry >= len(states):
            states.extend(bytes(entry + 1024 - len(states)))
        before = states[entry]
        if before & ACKED:
            if moves >= self._moves_of(place):
                self._report(place, life, "individually")
        elif unacked & (part := self._parts.get(place, 0)):
            if moves >= self._moves_of(place):
                self._report(place, life, f"by batch index, {part:#x} of {unacked:#x}")
        elif (life, moves) > (self.mark_life, self.mark_moves) and moves >= self.mark_moves:
            if place <= self.mark:
                self._report(place, life, f"cumulatively up to {self.mark}")
            elif self.part is not None and self.part[0] == place and self.part[1] & unacked:
                self._report(place, life, f"cumulatively, {self.part[1]:#x} of {unacked:#x}")
        states[entry] = before | DELIVERED
        return bool(before)

    def _report(self, place: Place, life: int, how: str) -> None:
        self.again.append(f"{self.subscription}: {place} came again in life {life}, acked {how}")
        if len(self.again) == 1:
            self.alarm(self.again[0])

    def _moves_of(self, place: Place) -> int:
        moves = self._moves.get(place[0], ())
        return moves[place[1]] if place[1] < len(moves) else 0

    def acked(self, ids: Iterable[tuple[Place, int]], moves: int = 0) -> None:
        """An answer came: messages of these entries (a mask; 0: all) are acknowledged.

        So many `moves` of the topic have begun.
        """
        for place, mask in ids:
            if moves:
                self._note_moves(place, moves)
            if mask:
                self._parts[place] = self._parts.get(place, 0) | mask
            else:
                self._parts.pop(place, None)
                self._states[place[0]][place[1]] |= ACKED

    def _note_moves(self, place: Place, moves: int) -> None:
        noted = self._moves[place[0]]
        if place[1] >= len(noted):
            noted.extend([0] * (place[1] + 1024 - len(noted)))
        noted[place[1]] = moves

    def acked_up_to(self, place: Place, mask: int, life: int, moves: int = 0) -> None:
        """A cumulative ack was answered: all before, and these messages of the entry (0: all)."""
        before = (place[0], place[1] - 1) if mask else place
        if before >= self.mark:
            self.mark, self.part = before, (place, mask) if mask else None
            self.mark_life, self.mark_moves = life, moves

    def is_acked(self, place: Place) -> bool:
        """Whether a whole entry was acknowledged with an answer."""
        return place <= self.mark or bool(self._state(place) & ACKED)

    def missing(self, stored: Iterable[Place]) -> list[Place]:
        """Entries that never came."""
        return [place for place in stored if not self._state(place)]

    def _state(self, place: Place) -> int:
        states = self._states.get(place[0], b"")
        return states[place[1]] if place[1] < len(states) else 0

    def answered(self) -> int:
        """Entries acknowledged individually, wholly or partly."""
        whole = sum(states.count(DELIVERED | ACKED) for states in self._states.values())
        return whole + len(self._parts)


def verdict(
    written: Iterable[Written], books: Iterable[AckBook], stored: list[Stored]
) -> list[str]:
    """What is wrong with a topic, given all that is in it."""
    by_producer: dict[str, list[tuple[int, Place]]] = defaultdict(list)
    for entry in stored:
        by_producer[entry.producer].append((entry.number, entry.place))
    problems = []
    for one in written:
        problems += few(one.producer, list(one.check(by_producer.pop(one.producer, []))))
    problems += few("stored by no known producer", list(by_producer))
    for book in books:
        problems += few("acknowledged, came again", book.again)
        problems += few(
            f"never came to {book.subscription}",
            book.missing(entry.place for entry in stored),
        )
    return problems
