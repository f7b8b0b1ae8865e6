"""What subscriptions of every type owe to those who consume, message by message.

`Messages` knows what of a topic is stored, from receipts and deliveries alone: nothing keeps
it, so that the broker may give it back.  A `Book` is the judge of one subscription.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from crash.books import Place, Written
from crash.record import Message, few
from magnetar_proto import PulsarApi_pb2 as pb

TICK_MS = 1000
"""So much earlier than asked for a delayed message may come."""
UNACKED, ACKED, SAFE = 0, 1, 2
"""SAFE: an answer vouches for it."""
NOWHERE = (-1, -1)
"""Where a copy is according to its receipt."""


class Once(Written):
    """A producer of a deduplicated topic, which sends again whatever it likes to."""

    def __init__(self, producer: str) -> None:
        super().__init__(producer)
        self.answered = self._expected = self._known = 0

    @property
    def settled(self) -> int:
        """Below it everything is stored."""
        return self.answered

    def begin_at(self, last_sequence_id: int, back: int) -> range:
        """A new connection, over which the broker knows messages up to that; what to send again."""
        self._known = last_sequence_id + 1
        if not self.answered <= self._known <= self.next:
            self.problems.append(
                f"{self._known} are known to the broker; {self.answered} were answered, "
                f"{self.next} sent"
            )
        self._expected = max(0, self.answered - back)
        return range(self._expected, self.next)

    def send(self) -> int:
        """The number of the next entry, which is sent now."""
        self.next += 1
        return self.next - 1

    def receipt(self, number: int, place: Place) -> None:
        """A receipt came: of a copy if the broker had known it when the connection began."""
        if number != self._expected or number >= self.next:
            self.problems.append(f"receipt for {number} instead of {self._expected}")
        if (place == NOWHERE) != (number < self._known):
            self.problems.append(f"{number} is at {place}, {self._known} were known")
        self._expected = number + 1
        self.answered = max(self.answered, self._expected)

    def surely_stored(self, number: int, later: int) -> bool:
        """Whether it must be there, given that a later one is."""
        return True

    def check(self, stored: Iterable[tuple[int, Place]]) -> Iterator[str]:
        """What is wrong with the entries that are known, in their order."""
        yield from self.problems
        numbers = [number for number, _ in stored]
        if numbers != list(range(self.next)):
            wrong = next((at for at, number in enumerate(numbers) if at != number), len(numbers))
            yield f"{numbers[wrong : wrong + 3]} is stored where {wrong} of {self.next} is expected"


class Messages:
    """Where the messages of one topic are, as far as any client knows."""

    def __init__(self, alarm: Callable[[str], None]) -> None:
        self.writers: dict[str, Written] = {}
        self.places: dict[Message, Place] = {}
        self._alarm = alarm

    def found(self, message: Message, place: Place) -> None:
        """A receipt or a delivery shows that a message is there."""
        writer = self.writers.get(message.producer)
        if writer is None or message.number >= writer.next:
            self._alarm(f"{message} at {place} was never sent")
        if self.places.setdefault(message, place) != place:
            self._alarm(f"{message} is at {place}, and at {self.places[message]}")

    def surely_stored(self, message: Message, later: int) -> bool:
        """Whether a message must be there, given that a later one of its producer is."""
        return message in self.places or self.writers[message.producer].surely_stored(
            message.number, later
        )

    def check(self) -> Iterator[str]:
        """What is wrong with what is stored, when everything came."""
        stored: dict[str, list[tuple[int, Place]]] = {name: [] for name in self.writers}
        for message, place in sorted(self.places.items(), key=lambda item: item[1]):
            stored[message.producer].append((message.number, place))
        for name, writer in self.writers.items():
            yield from few(name, list(writer.check(stored[name])))


class Kind(NamedTuple):
    """What a type of subscription does."""

    type: pb.CommandSubscribe.SubType
    consumers: int
    ordered: bool
    """What is not acknowledged comes in its producer's order."""
    by_key: bool = False
    """In order for each key, and all of a key is at one consumer."""

    @property
    def shares(self) -> bool:
        """Whether messages go here and there; they can be delayed, and asked for again."""
        return not self.ordered or self.by_key


KINDS = {
    "exclusive": Kind(pb.CommandSubscribe.Exclusive, 1, ordered=True),
    "failover": Kind(pb.CommandSubscribe.Failover, 3, ordered=True),
    "shared": Kind(pb.CommandSubscribe.Shared, 3, ordered=False),
    "keys": Kind(pb.CommandSubscribe.Key_Shared, 4, ordered=True, by_key=True),
}


@dataclass(slots=True)
class State:
    """What happened to one message in one subscription."""

    came_at: float
    """First; seconds of the monotonic clock."""
    acked: int = UNACKED
    safe_after: int = 0
    """SAFE since so many visits had begun."""
    asked: int = 0
    """How often it was asked for again,"""
    counted: int = 0
    """and how often so that the broker must not forget it."""


@dataclass(eq=False)
class Visit:
    """A consumer, from its subscribing to the end of its connection."""

    number: int
    life: int
    held: dict[Message, int] = field(default_factory=dict)
    """What came and was not acknowledged; not 0 if it was asked for again: how often so far."""
    seen: dict[str, int] = field(default_factory=dict)
    """By producer, behind the message that came last."""
    requests: int = 0
    """How often it acknowledged a message or asked for it again."""
    unsure: deque[tuple[Message, int]] = field(default_factory=deque)
    """The last of these, which no answer confirms yet; 0 for an acknowledgement."""

    def request(self, message: Message, asked: int) -> None:
        """One more."""
        self.requests += 1
        self.unsure.append((message, asked))


class Book:
    """The judge of one subscription: report everything to it in the order in which it happens."""

    def __init__(
        self,
        kind: Kind,
        messages: Messages,
        keys: Mapping[str, int],
        alarm: Callable[[str], None],
    ) -> None:
        """`keys` has the number of keys of each producer's messages, which take turns."""
        self.kind = kind
        self.problems: list[str] = []
        self.safe: Counter[int] = Counter()
        """By life, how many messages were acknowledged with an answer."""
        self.counts_tested = 0
        """Deliveries that had to bring a count of redeliveries."""
        self.done = 0
        """How many messages are acknowledged."""
        self._messages = messages
        self._keys = keys
        self._alarm = alarm
        self._states: dict[Message, State] = {}
        self._low: dict[str, int] = {}
        self._floor: dict[str, int] = {}
        self._visits: set[Visit] = set()
        self._begun = 0

    def begins_between(self, floor: dict[str, int], ceiling: dict[str, int]) -> None:
        """Messages below `floor` must not come, and those from `ceiling` on have to."""
        self._floor, self._low = floor, ceiling

    # What consumers report -------------------------------------------------------------------

    def begin(self, life: int) -> Visit:
        """A consumer has subscribed."""
        self._begun += 1
        visit = Visit(self._begun, life)
        self._visits.add(visit)
        return visit

    def end(self, visit: Visit) -> None:
        """It is gone, or will be: what it holds has to come to others."""
        self._visits.discard(visit)

    def came(self, visit: Visit, message: Message, place: Place, due_ms: int, count: int) -> float:
        """A message came with this redelivery count; returns since when it is known."""
        self._messages.found(message, place)
        state = self._states.get(message)
        if state is None:
            state = self._states[message] = State(time.monotonic())
        if message.number < self._floor.get(message.producer, 0):
            self._report(f"{message} came, which is older than the subscription")
        self._check_acked(visit, message, state)
        self._check_count(message, state, count)
        if self.kind.shares and due_ms - TICK_MS > time.time_ns() // 1_000_000:
            self._report(f"{message} came early, it is due at {due_ms}")
        if self.kind.ordered:
            self._check_order(visit, message)
        visit.held[message] = 0
        visit.seen[message.producer] = message.number + 1
        return state.came_at

    def acked(self, visit: Visit, messages: Iterable[Message]) -> None:
        """It sends an acknowledgement."""
        for message in messages:
            state = self._states[message]
            self.done += not state.acked
            state.acked = max(state.acked, ACKED)
            visit.held.pop(message, None)
            visit.request(message, 0)

    def nacked(self, visit: Visit, messages: Iterable[Message]) -> None:
        """It asks for messages again that it holds."""
        for message in messages:
            state = self._states[message]
            state.asked += 1
            visit.held[message] = state.asked
            visit.request(message, state.asked)

    def answered(self, visit: Visit, requests: int) -> None:
        """The broker answered: it has done the first `requests` requests, durably."""
        while visit.unsure and visit.requests - len(visit.unsure) < requests:
            message, asked = visit.unsure.popleft()
            state = self._states[message]
            if asked:
                state.counted += 1
                if visit.held.get(message) == asked:
                    del visit.held[message]
            else:
                self.done += not state.acked
                self.safe[visit.life] += state.acked != SAFE
                state.acked, state.safe_after = SAFE, self._begun

    # Judging ---------------------------------------------------------------------------------

    def _report(self, problem: str) -> None:
        self.problems.append(problem)
        if len(self.problems) == 1:
            self._alarm(problem)

    def _check_acked(self, visit: Visit, message: Message, state: State) -> None:
        """Who became the active consumer may get what the former one acknowledges meanwhile."""
        if state.acked == SAFE:
            if self.kind.shares or visit.number > state.safe_after:
                self._report(f"{message} came again, its acknowledgement had been answered")
        elif state.acked == ACKED:
            self.done -= 1
            state.acked = UNACKED
            producer, number = message
            self._low[producer] = min(number, self._low.get(producer, 0))

    def _check_count(self, message: Message, state: State, count: int) -> None:
        if not state.counted <= count <= state.asked:
            self._report(
                f"{message} brings {count} redeliveries; {state.asked} were asked for, "
                f"{state.counted} of them with an answer"
            )
        self.counts_tested += state.counted > 0

    def _check_order(self, visit: Visit, message: Message) -> None:
        """What is before it is acknowledged, or held by a consumer - of its key, by the same."""
        producer, number = message
        low = self._lowest(producer, number)
        step = 1
        if self.kind.by_key:
            step = self._keys[producer]
        else:
            low = max(low, visit.seen.get(producer, 0))
        for before in range(number - step, low - 1, -step):
            earlier = Message(producer, before)
            state = self._states.get(earlier)
            if state is None:
                if self._messages.surely_stored(earlier, number):
                    self._report(f"{message} came, but {earlier} never did")
            elif not state.acked and not self._is_held(visit, earlier):
                self._report(f"{message} came before {earlier}, which is not acknowledged")

    def _is_held(self, visit: Visit, message: Message) -> bool:
        if self.kind.by_key:
            return message in visit.held
        return any(message in other.held for other in self._visits)

    def _lowest(self, producer: str, number: int) -> int:
        """The first message that may be unacknowledged, given that `number` is stored."""
        low = self._low.get(producer, 0)
        while low < number:
            message = Message(producer, low)
            state = self._states.get(message)
            if state is None:
                if self._messages.surely_stored(message, number):
                    break
            elif not state.acked:
                break
            low += 1
        self._low[producer] = low
        return low

    @property
    def is_done(self) -> bool:
        """Whether everything that is known came, and is acknowledged."""
        return self.done >= len(self._messages.places)

    def check(self) -> Iterator[str]:
        """What is wrong in the end."""
        yield from few("delivered against the promise", self.problems)
        missing = [m for m in self._messages.places if m not in self._states]
        yield from few("never came", missing)
        kept = [m for m, state in self._states.items() if not state.acked]
        yield from few("came and cannot be acknowledged", kept)
