"""Lists of topic names in memory, for clients that ask for them again and again, or watch them.

A list is read once and then follows `TopicEvents`.  Those asked for last stay, up to a number of
names; those that are watched stay as long as they are.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_broker.pauses import pause
from magnetar_proto.hashes import topics_hash
from magnetar_proto.names import TopicName
from magnetar_storage.world import Clock

KEPT_NAMES = 500_000
"""In all lists that nobody watches, about."""
KEPT_LISTS = 1000
REST_SECONDS = 1e-6
"""Watchers are told at once, and then of what gathers in so much time for each name in the list:
most of the work is the hash over all of them."""

Source = Callable[[str], AsyncIterator[list[str]]]
"""Full names of a namespace's stored topics, some at a time; no system topics."""
Change = tuple[str, bool]
"""A name, and whether there is such a topic now."""


class Watcher(Protocol):
    """Whoever is told of a list's changes."""

    def told(self, changes: list[Change]) -> None:
        """Names that came and went, in their order; must not raise."""


class TopicList:
    """Sorted full names of a namespace's persistent topics, all or those of a pattern."""

    def __init__(self, namespace: str, pattern: TopicPattern | None, clock: Clock) -> None:
        self.names: list[str] = []
        self.watchers: set[Watcher] = set()
        self.cancel: Callable[[], None] = lambda: None
        self._namespace = namespace
        self._pattern = pattern
        self._clock = clock
        self._hash: str | None = None
        self._early: list[Change] | None = []  # while it is being read
        self._untold: list[Change] = []
        self._telling = self._resting = False

    @property
    def hash(self) -> str:
        """What clients compare."""
        if self._hash is None:
            self._hash = topics_hash(self.names)
        return self._hash

    def has(self, name: str) -> bool:
        """Whether a name is meant by the list's pattern."""
        return self._pattern is None or self._pattern.matches(name)

    def add(self, watcher: Watcher) -> None:
        """Tell a watcher what comes and goes from now on; it knows the list as it is."""
        if self._untold:
            self._tell_all()
        self.watchers.add(watcher)

    def fill(self, names: list[str]) -> None:
        """It has been read: `names` and what was heard of meanwhile."""
        self.names = sorted(names)
        early, self._early = self._early or [], None
        for change in early:
            self._apply(*change)

    def heard(self, name: TopicName, exists: bool) -> None:
        """A topic of the namespace came or went."""
        text = str(name)
        if name.is_system or not self.has(text):
            return
        if self._early is not None:
            self._early.append((text, exists))
        elif self._apply(text, exists) and self.watchers:
            self._untold.append((text, exists))
            if not self._telling:
                self._telling = True
                if not self._resting:
                    self._clock.soon(self._tell)

    def _apply(self, name: str, exists: bool) -> bool:
        """False if that was known."""
        at = bisect_left(self.names, name)
        known = at < len(self.names) and self.names[at] == name
        if known == exists:
            return False
        if exists:
            insort(self.names, name)
        else:
            del self.names[at]
        self._hash = None
        return True

    def _tell(self) -> None:
        self._telling, self._resting = False, True
        self._clock.later(REST_SECONDS * len(self.names), self._rested)
        self._tell_all()

    def _tell_all(self) -> None:
        changes, self._untold = self._untold, []
        for watcher in list(self.watchers):
            watcher.told(changes)

    def _rested(self) -> None:
        self._resting = False
        if self._telling:
            self._tell()


class TopicLists:
    """One per broker."""

    def __init__(self, events: TopicEvents, source: Source, clock: Clock) -> None:
        self._events = events
        self._source = source
        self._clock = clock
        self._lists: OrderedDict[tuple[str, str | None], TopicList] = OrderedDict()
        self._reading: dict[tuple[str, str | None], Awaitable[None]] = {}

    async def of(self, namespace: str, pattern: TopicPattern | None = None) -> TopicList:
        """The topics of a namespace; the list is right now, and until the caller next waits."""
        key = namespace, pattern.text if pattern is not None else None
        while (reading := self._reading.get(key)) is not None:
            await reading
        found = self._lists.get(key)
        if found is not None:
            self._lists.move_to_end(key)
            return found
        promise = self._reading[key] = self._clock.promise()
        found = TopicList(namespace, pattern, self._clock)
        found.cancel = self._events.watch(namespace, found.heard)
        try:
            found.fill(await self._read(namespace, found))
            self._lists[key] = found
        except BaseException:
            found.cancel()
            raise
        finally:
            del self._reading[key]
            promise.set_result(None)
        self._forget_some()
        return found

    async def _read(self, namespace: str, wanted: TopicList) -> list[str]:
        names: list[str] = []
        async for part in self._source(namespace):
            names += filter(wanted.has, part)
            await pause(self._clock)
        return names

    def _forget_some(self) -> None:
        """Those asked for longest ago go, except the newest."""
        newest = next(reversed(self._lists))
        idle = {key: one for key, one in self._lists.items() if not one.watchers}
        kept = sum(len(one.names) for one in idle.values())
        for key, one in idle.items():
            if kept <= KEPT_NAMES and len(self._lists) <= KEPT_LISTS:
                break
            if key != newest:
                kept -= len(one.names)
                one.cancel()
                del self._lists[key]
