"""What must be true of a namespace after operations that were answered, and one that was not.

Messages are numbered, by all clients that work on a namespace together; a number's key follows from
`key_of`.  A position is the number of the first message that is not acknowledged; it lies between
two bounds, for messages may be under way while something happens to their topic.
"""

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

KEYS = 5
KEEP, DROP = "keep", "drop"
"""Values of the policy `retention`: for ever, not at all."""
NOWHERE = (-1, -1)
"""The place of a message whose receipt was lost."""
MOST_PRODUCERS = 4
"""Whether there may be more is not checked."""
Values = dict[str, object]
"""The policies that are set, by name."""
DEFAULTS: Values = {
    "retention": DROP,
    "message_ttl": 0,
    "max_producers": 10000,
    "schema_compatibility": "ALWAYS_COMPATIBLE",
}


def key_of(number: int) -> str:
    """The key that a message is published with."""
    return f"key-{number % KEYS}"


@dataclass
class Span:
    """A position: not before `low`, not behind `high`."""

    low: int
    high: int


@dataclass(frozen=True)
class Compacted:
    """What is left of all before `horizon`: for each key the latest that is `sure`, or a later one
    of which it is unknown whether it was still there."""

    horizon: int = 0
    sure: frozenset[int] = frozenset()
    unsure: frozenset[int] = frozenset()

    def grown(self, stored: Iterable[int], kept_from: int, horizon: int) -> "Compacted":
        """After one more compaction of a topic that has these messages."""
        fresh = {number for number in stored if number >= self.horizon}
        needed = {number for number in fresh if number >= kept_from}
        sure: dict[str, int] = {}
        for number in sorted(self.sure | needed):
            sure[key_of(number)] = number
        unsure = {n for n in self.unsure | (fresh - needed) if n > sure.get(key_of(n), -1)}
        return Compacted(horizon, frozenset(sure.values()), frozenset(unsure))

    def differences(self, view: list[int]) -> Iterator[str]:
        """What is wrong with what is read of it."""
        below = [number for number in view if number < self.horizon]
        keys = [key_of(number) for number in below]
        if len(set(keys)) < len(keys):
            yield f"compacted data has a key twice: {below}"
        strange = [number for number in below if number not in self.sure | self.unsure]
        if strange:
            yield f"compacted data has {strange}, which compaction did not leave"
        left = dict(zip(keys, below, strict=True))
        lost = [number for number in self.sure if left.get(key_of(number), -1) < number]
        if lost:
            yield f"compacted data lacks {sorted(lost)}, it has {below}"


@dataclass
class SeenLog:
    """What a topic or partition has, as clients see it; numbers are those of messages."""

    messages: list[int]
    view: list[int]
    """Read compacted."""
    subscriptions: dict[str, list[int]]
    """What each gets that is not acknowledged."""
    terminated: bool


@dataclass
class LogBook:
    """A topic that is not partitioned, or a partition."""

    born: int
    """All its messages have later numbers, but for those that it had when it was looked at."""
    sent: list[int] = field(default_factory=list)
    """Those that may be there, in order."""
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Ledger and entry of those that were confirmed."""
    kept_from: int = 0
    """What is before it may be gone."""
    subscriptions: dict[str, Span] = field(default_factory=dict)
    compacted: Compacted = Compacted()
    terminated: bool = False
    expiring: bool = False
    """Anything may have been acknowledged by the time to live."""
    loaded: bool = False

    @property
    def top(self) -> int:
        """Behind the last message."""
        return max(self.born, self.sent[-1] + 1) if self.sent else self.born

    @property
    def settled_to(self) -> int:
        """All before it are stored, as far as they ever will be, and that is known."""
        return next((n for n in self.sent if n not in self.places), self.top)

    def pass_all(self, span: Span) -> None:
        """Everything was acknowledged for a subscription, what is under way perhaps."""
        span.low = max(span.low, self.settled_to)
        span.high = max(span.high, self.top)

    def let_go(self, retained: bool) -> None:
        """What is acknowledged may be deleted now, unless it is retained."""
        if self.expiring:
            for span in self.subscriptions.values():
                span.high = self.top
        if not retained:
            needed = min((span.high for span in self.subscriptions.values()), default=self.top)
            self.kept_from = max(self.kept_from, needed)

    def differences(self, seen: SeenLog) -> Iterator[str]:
        """What is not as it must be."""
        stored = seen.messages
        if stored != sorted(stored):
            yield f"out of order: {stored}"
        strange = sorted(set(stored) - set(self.sent))
        if strange:
            yield f"has {strange}, which were not sent to it since it was made"
        lost = [n for n in self.places if n >= self.kept_from and n not in set(stored)]
        if lost:
            yield f"lost {lost}, which were confirmed and may not be deleted"
        if seen.terminated != self.terminated:
            yield f"terminated is {seen.terminated}"
        there, wanted = sorted(seen.subscriptions), sorted(self.subscriptions)
        if there != wanted:
            yield f"has subscriptions {there}, not {wanted}"
        for name in seen.subscriptions.keys() & self.subscriptions.keys():
            got, span = seen.subscriptions[name], self.subscriptions[name]
            yield from _of_subscription(name, span, got, stored)
        yield from self.compacted.differences(seen.view)
        above = {n for n in seen.view if n >= self.compacted.horizon}
        missing = [n for n in stored if n >= max(self.compacted.horizon, self.kept_from)]
        if above - set(stored) or set(missing) - above:
            yield f"read compacted it has {seen.view}, and {stored} else"

    def learn(self, seen: SeenLog, expiring: bool) -> None:
        """From now on that is what must be there."""
        self.born, self.sent = self.top, list(seen.messages)
        self.places = {n: self.places.get(n, NOWHERE) for n in seen.messages}
        self.kept_from = max(self.kept_from, seen.messages[0] if seen.messages else self.top)
        for name, got in seen.subscriptions.items():
            first = got[0] if got else self.top
            self.subscriptions[name] = Span(first, first)
        left = frozenset(n for n in seen.view if n < self.compacted.horizon)
        self.compacted = Compacted(self.compacted.horizon, left)
        self.expiring, self.loaded = expiring, True


def _of_subscription(name: str, span: Span, got: list[int], stored: list[int]) -> Iterator[str]:
    again = [number for number in got if number < span.low]
    if again:
        yield f"{name} gets {again} again, which were acknowledged"
    missed = [n for n in stored if n not in set(got) and (n >= span.high or (got and n > got[0]))]
    if missed:
        yield f"{name} misses {missed}: it gets {got}, acknowledged is what is before {span}"


@dataclass
class SeenFamily:
    """What there is of a name."""

    partitions: int | None
    """0 of a topic that has none, None without a topic."""
    holds: dict[str, tuple[object, str]]
    """Effective values and their origins, by the names of policies."""
    schemas: dict[int, str]
    producers: int
    """How many there may be, not counting further than `MOST_PRODUCERS`."""
    logs: dict[int, SeenLog]
    """By partition, -1 of a topic that has none."""


@dataclass
class FamilyBook:
    """A topic with all its partitions."""

    partitions: int
    logs: dict[int, LogBook]
    policies: Values = field(default_factory=dict)


@dataclass
class SeenNamespace:
    """Everything that there is."""

    exists: bool
    holds: dict[str, tuple[object, str]]
    families: dict[str, SeenFamily]


@dataclass
class Schemas:
    """The versions of a name's schema."""

    next: int = 0
    versions: dict[int, str] = field(default_factory=dict)


@dataclass
class NamespaceBook:
    """One namespace."""

    exists: bool = False
    policies: Values = field(default_factory=dict)
    families: dict[str, FamilyBook] = field(default_factory=dict)
    schemas: dict[str, Schemas] = field(default_factory=dict)

    def copy(self) -> "NamespaceBook":
        """One that may be changed."""
        made: NamespaceBook = pickle.loads(pickle.dumps(self))
        return made

    def holds(self, policy: str, family: str | None = None) -> tuple[object, str]:
        """The effective value, and its origin."""
        own = self.families[family].policies if family in self.families else {}
        if policy in own:
            return own[policy], "topic"
        if policy in self.policies:
            return self.policies[policy], "namespace"
        return DEFAULTS[policy], "broker"

    def let_go(self) -> None:
        """To be called before and after everything that changes what may be deleted."""
        for name, family in self.families.items():
            retained = self.holds("retention", name)[0] == KEEP
            expires = self.holds("message_ttl", name)[0] != 0
            for log in family.logs.values():
                log.expiring = log.expiring or expires
                log.let_go(retained)

    def differences(self, seen: SeenNamespace) -> list[str]:
        """What is not as it must be; empty if all is well."""
        self.let_go()
        if seen.exists != self.exists:
            return [f"the namespace {'exists' if seen.exists else 'is gone'}"]
        found = list(_of_policies(seen.holds, {name: self.holds(name) for name in seen.holds}))
        for name, family in seen.families.items():
            found += [f"{name}: {what}" for what in self._of_family(name, family)]
        return found

    def _of_family(self, name: str, seen: SeenFamily) -> Iterator[str]:
        schemas = self.schemas.get(name, Schemas())
        if seen.schemas != schemas.versions:
            yield f"has schemas {seen.schemas}, not {schemas.versions}"
        book = self.families.get(name)
        partitions = None if book is None else book.partitions
        if seen.partitions != partitions:
            yield f"has {seen.partitions} partitions, not {partitions}"
            return
        if book is None:
            return
        yield from _of_policies(seen.holds, {one: self.holds(one, name) for one in seen.holds})
        limit = self.holds("max_producers", name)[0]
        assert isinstance(limit, int)
        if all(log.terminated for log in book.logs.values()):
            limit = 0
        if seen.producers != min(limit, MOST_PRODUCERS):
            yield f"takes {seen.producers} producers, {limit} are allowed"
        for index, log in seen.logs.items():
            yield from (f"{index}: {what}" for what in book.logs[index].differences(log))

    def learn(self, seen: SeenNamespace) -> None:
        """What was seen agrees: that is what must be there from now on."""
        for name, family in self.families.items():
            expiring = self.holds("message_ttl", name)[0] != 0
            for index, log in family.logs.items():
                log.learn(seen.families[name].logs[index], expiring)


def _of_policies(
    seen: dict[str, tuple[object, str]], wanted: dict[str, tuple[object, str]]
) -> Iterator[str]:
    for name, value in wanted.items():
        if seen[name] != value:
            yield f"{name} is {seen[name]}, not {value}"
