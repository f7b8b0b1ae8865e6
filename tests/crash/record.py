"""What clients did and saw, kept apart from the broker, and the verdict over it."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import pulsar

from crash.lives import Lives, Tally

WINDOW_SECONDS = 1.0
"""An ack without an answer counts as safe when one was answered that was made so much later:
time alone proves nothing while a full broker is behind."""
SETTLED_SECONDS = 2.0
"""So long after a move, or the kill of a relay, no ack without an answer is noted: it may be of a
message that came over the former connection, and go there."""
SHOWN = 10
"""Problems of one kind that a report spells out."""

Key = tuple[int, int, int]
"""Where a message is stored: ledger, entry, index in its batch or -1."""


class Promise(Enum):
    """What the broker must not forget."""

    RECEIPT = "receipt"
    ACK = "answered ack"


class Message(NamedTuple):
    """The `number`th message of a producer."""

    producer: str
    number: int


class Stretch(NamedTuple):
    """The time between two events that end connections of a topic's clients."""

    life: int
    moves: int
    """So many moves of the topic have begun,"""
    relays_killed: int
    """and so many processes were killed that may have relayed to its own."""


class Acked(NamedTuple):
    """When a message was acknowledged; an answered ack is safe at once."""

    stretch: Stretch
    at: float
    answered: bool

    @property
    def life(self) -> int:
        """The one in which it was acknowledged."""
        return self.stretch.life


@dataclass
class Report:
    """What one load did and saw; it went well when there are no `problems`."""

    sent: int = 0
    receipts: int = 0
    stored: int = 0
    stored_again: int = 0
    deliveries: int = 0
    acks_tested: int = 0
    acked_again_in_window: int = 0
    counts_tested: int = 0
    subscriptions_deleted: int = 0
    problems: list[str] = field(default_factory=list)
    backlogs: dict[tuple[str, str], int | None] = field(default_factory=dict)
    """What the broker must count for each topic's subscriptions when no client works any more; None
    where that is not known."""

    def __add__(self, other: "Report") -> "Report":
        summed = {
            name: getattr(self, name) + getattr(other, name)
            for name in vars(self)
            if name != "backlogs"
        }
        return Report(**summed, backlogs=self.backlogs | other.backlogs)

    def __str__(self) -> str:
        figures = [
            f"{self.sent:,} messages sent, {self.receipts:,} receipts",
            f"{self.stored:,} stored, {self.stored_again:,} of them sent again by a client whose "
            "receipt was lost",
            f"{self.deliveries:,} deliveries; {self.acks_tested:,} acks had to survive a kill; "
            f"{self.acked_again_in_window:,} younger ones came again",
            f"{self.counts_tested:,} deliveries had to bring a count of redeliveries; "
            f"{self.subscriptions_deleted:,} subscriptions were deleted",
        ]
        return "\n".join(figures + (self.problems or ["no problems"]))


class Record:
    """Of the official clients of one process and one topic; thread-safe."""

    def __init__(self, lives: Lives, tally: Tally, alarm: Callable[[str], None]) -> None:
        """`alarm` is called with the first message that came again though it must not."""
        self.lives = lives
        self.tally = tally
        self._alarm = alarm
        self.failed_sends: list[str] = []
        self.acked_again: list[str] = []
        self.in_window = 0
        self._changed = threading.Condition()
        self._trap: tuple[Promise, Callable[[], None]] | None = None
        self._sent: dict[Message, int] = {}
        self._receipts: dict[Message, int] = {}
        self._first_life: dict[str, dict[Key, int]] = defaultdict(dict)
        self._acks: dict[str, dict[Key, Acked]] = defaultdict(dict)
        self._answered_at: dict[Stretch, float] = {}

    # The trap --------------------------------------------------------------------------

    def kill_at_next(self, promise: Promise, kill: Callable[[], None], seconds: float) -> bool:
        """Kill in the very moment in which a client receives such a promise; False if none came."""
        with self._changed:
            self._trap = (promise, kill)
            sprung = self._changed.wait_for(lambda: self._trap is None, seconds)
            self._trap = None
            return sprung

    def _promised(self, promise: Promise) -> None:
        if self._trap is not None and self._trap[0] is promise:
            kill = self._trap[1]
            self._trap = None
            kill()
            self._changed.notify_all()

    @property
    def _ends(self) -> int:
        """How often connections may have ended with receipts on their way: in no move."""
        return self.lives.kills + self.lives.relays_killed

    # Producers -------------------------------------------------------------------------

    def sent(self, message: Message) -> None:
        """A client was asked to publish."""
        with self._changed:
            self.tally.sent.value += 1
            self._sent[message] = self._ends

    def answered(self, message: Message, result: pulsar.Result) -> None:
        """A client received the outcome."""
        if result == pulsar.Result.Ok:
            with self._changed:
                self.tally.receipts.value += 1
                self._receipts[message] = self._ends
                self._promised(Promise.RECEIPT)
        else:
            self.failed_sends.append(f"{message} failed: {result}")

    # Consumers --------------------------------------------------------------------------

    def delivered(self, subscription: str, key: Key, life: int) -> int:
        """A message came; returns how many lives ago it first did."""
        with self._changed:
            self.tally.deliveries.value += 1
            acked = self._acks[subscription].pop(key, None)
            if acked is not None:
                self._came_again(subscription, key, acked, life)
            first = self._first_life[subscription].setdefault(key, life)
            self._changed.notify_all()
            return life - first

    def glimpsed(self, subscription: str, key: Key) -> None:
        """A message came, maybe from a connection that is lost: nothing follows but that it did."""
        with self._changed:
            self.tally.deliveries.value += 1
            self._first_life[subscription].setdefault(key, self.lives.kills)
            self._changed.notify_all()

    def _came_again(self, subscription: str, key: Key, acked: Acked, life: int) -> None:
        if acked.stretch == self._stretch(life):
            why = "in the same life"
        elif acked.answered:
            why = "though that had been answered"
        elif self._is_safe(acked):
            last = self._answered_at[acked.stretch]
            why = f"{last - acked.at:.2f} s before one that was answered"
        else:
            self.in_window += 1
            return
        self.acked_again.append(f"{subscription}: {key} acknowledged {why} came again in {life}")
        if len(self.acked_again) == 1:
            self._alarm(self.acked_again[0])

    def _is_safe(self, acked: Acked) -> bool:
        last = self._answered_at.get(acked.stretch, acked.at)
        return acked.answered or last - acked.at >= WINDOW_SECONDS

    def acked(self, subscription: str, keys: Sequence[Key], life: int, at: float) -> None:
        """Messages of one life were acknowledged in it.

        It is not noted when that is over, nor while the topic moves.
        """
        stretch = self._stretch(life)
        if not self.lives.moving and at - self.lives.disturbed_at >= SETTLED_SECONDS:
            self._note(subscription, keys, Acked(stretch, at, False))

    def ack_answered(self, subscription: str, keys: Sequence[Key], life: int, at: float) -> None:
        """It was done, and the answer came."""
        with self._changed:
            acked = Acked(self._stretch(life), at, True)
            self._answered_at[acked.stretch] = max(at, self._answered_at.get(acked.stretch, at))
            self._note(subscription, keys, acked)
            self._promised(Promise.ACK)

    def _stretch(self, life: int) -> Stretch:
        return Stretch(life, self.lives.moves_begun, self.lives.relays_killed)

    def _note(self, subscription: str, keys: Sequence[Key], acked: Acked) -> None:
        with self._changed:
            if self.lives.life == acked.life:
                self.tally.acks.value += len(keys)
                self._acks[subscription].update(dict.fromkeys(keys, acked))

    def await_deliveries(self, subscription: str, keys: set[Key], seconds: float) -> set[Key]:
        """Wait until all these came at least once; those that never did."""
        seen = self._first_life[subscription]
        with self._changed:
            self._changed.wait_for(lambda: len(seen) >= len(keys), seconds)
            return keys - seen.keys()

    # Verdict ------------------------------------------------------------------------------

    def report(self, stored: Sequence[Message]) -> Report:
        """Compare with the topic as it was read at the end, in order."""
        copies = Counter(stored)
        firsts: dict[str, list[int]] = defaultdict(list)
        for message in dict.fromkeys(stored):
            firsts[message.producer].append(message.number)
        problems = [
            *few("lost after their receipt", [m for m in self._receipts if m not in copies]),
            *few("stored but never sent", [m for m in copies if m not in self._sent]),
            *few("out of order", [p for p, n in firsts.items() if n != sorted(n)]),
            *few("stored more often than they were sent", self._excess(copies)),
            *few("sends failed", self.failed_sends),
            *few("acknowledged, delivered again", self.acked_again),
        ]
        return Report(
            sent=len(self._sent),
            receipts=len(self._receipts),
            stored=len(stored),
            stored_again=len(stored) - len(copies),
            deliveries=self.tally.deliveries.value,
            acks_tested=self._acks_tested(),
            acked_again_in_window=self.in_window,
            problems=problems,
        )

    def _excess(self, copies: Counter[Message]) -> list[Message]:
        """A client sends once, and once more for every connection that ended before a receipt."""
        return [
            message
            for message, count in copies.items()
            if count > 1 + self._receipts.get(message, self._ends) - self._sent.get(message, 0)
        ]

    def _acks_tested(self) -> int:
        """Acknowledgements that were safe when a kill came, and did not come again."""
        return sum(
            acked.life < self.lives.kills and self._is_safe(acked)
            for acks in self._acks.values()
            for acked in acks.values()
        )


def few(kind: str, problems: Sequence[object]) -> list[str]:
    """A line on each kind of problem that there is, with the first ones."""
    if not problems:
        return []
    return [f"{len(problems)} {kind}: " + "; ".join(map(str, problems[:SHOWN]))]
