"""Lists of topic names in memory, for clients that list a namespace repeatedly or watch it.

A list is read once and then follows `TopicEvents`.  The most recently used lists are kept, up to
`KEPT_NAMES` names; a watched list is kept as long as it has watchers.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_proto.hashes import topics_hash
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock, yield_turn
from magnetar_storage.runtime.mutex import KeyedMutex

KEPT_NAMES = 500_000
"""The approximate limit of names in all lists without watchers."""
KEPT_LISTS = 1000
REST_SECONDS = 1e-6
"""Seconds between two notifications of watchers, for each name in the list: most of their cost is
the hash over all names.  Changes in between are sent together."""

Source = Callable[[str], AsyncIterator[list[str]]]
"""Returns full names of a namespace's stored topics, some at a time; no system topics."""
Change = tuple[str, bool]
"""The name of a topic, and whether the topic exists now."""


class Watcher(Protocol):
    """The receiver of the changes of a list."""

    def changed(self, changes: list[Change]) -> None:
        """Take the names that were created and deleted, in this order; this must not raise."""


class TopicList:
    """The sorted full names of a namespace's persistent topics, optionally only of a pattern."""

    def __init__(self, namespace: str, pattern: TopicPattern | None, clock: Clock) -> None:
        self.names: list[str] = []
        self.watchers: set[Watcher] = set()
        self.cancel: Callable[[], None] = lambda: None
        self._namespace = namespace
        self._pattern = pattern
        self._clock = clock
        self._hash: str | None = None
        self._early: list[Change] | None = []  # changes while it is being read
        self._changes: list[Change] = []
        self._is_due = self._resting = False

    @property
    def hash(self) -> str:
        """The hash of the list, which clients compare with the hash of theirs."""
        if self._hash is None:
            self._hash = topics_hash(self.names)
        return self._hash

    def has(self, name: str) -> bool:
        """Return whether a name matches the list's pattern."""
        return self._pattern is None or self._pattern.matches(name)

    def add(self, watcher: Watcher) -> None:
        """Notify a watcher of changes from now on; it knows the list as it is."""
        if self._changes:
            self._notify_all()
        self.watchers.add(watcher)

    def remove(self, watcher: Watcher) -> None:
        """Stop notifying a watcher; safe if it was not added."""
        self.watchers.discard(watcher)

    def fill(self, names: list[str]) -> None:
        """Set the names read from the namespace, and apply the changes made meanwhile."""
        self.names = sorted(names)
        early, self._early = self._early or [], None
        for change in early:
            self._apply(*change)

    def topic_changed(self, name: TopicName, exists: bool) -> None:
        """Note that a topic of the namespace was created or deleted."""
        text = str(name)
        if name.is_system or not self.has(text):
            return
        if self._early is not None:
            self._early.append((text, exists))
        elif self._apply(text, exists) and self.watchers:
            self._changes.append((text, exists))
            if not self._is_due:
                self._is_due = True
                if not self._resting:
                    self._clock.soon(self._notify)

    def _apply(self, name: str, exists: bool) -> bool:
        """Apply a change; False if it was known."""
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

    def _notify(self) -> None:
        self._is_due, self._resting = False, True
        self._clock.later(REST_SECONDS * len(self.names), self._rested)
        self._notify_all()

    def _notify_all(self) -> None:
        changes, self._changes = self._changes, []
        for watcher in list(self.watchers):
            watcher.changed(changes)

    def _rested(self) -> None:
        self._resting = False
        if self._is_due:
            self._notify()


class TopicLists:
    """The lists of topics that clients use; one per broker."""

    def __init__(self, events: TopicEvents, source: Source, clock: Clock) -> None:
        self._events = events
        self._source = source
        self._clock = clock
        self._lists: OrderedDict[tuple[str, str | None], TopicList] = OrderedDict()
        self._reading: KeyedMutex[tuple[str, str | None]] = KeyedMutex(clock)

    async def of(self, namespace: str, pattern: TopicPattern | None = None) -> TopicList:
        """Return the topics of a namespace; the list is right until the caller next waits."""
        key = namespace, pattern.text if pattern is not None else None
        found = self._lists.get(key)
        if found is None:
            async with self._reading.held(key):  # a caller that waits here finds the list read
                found = self._lists.get(key) or await self._filled(namespace, pattern)
                self._lists[key] = found
            self._lists.move_to_end(key)
            self._evict()
        else:
            self._lists.move_to_end(key)
        return found

    async def reload(self) -> None:
        """Read watched lists again, and notify their watchers of differences; forget the others.

        No topic is created or deleted meanwhile.
        """
        for key, one in list(self._lists.items()):
            if one.watchers:
                namespace, _ = key
                present = set(await self._read(namespace, one))
                for name in sorted(present.symmetric_difference(one.names)):
                    one.topic_changed(TopicName.parse(name), name in present)
            else:
                one.cancel()
                del self._lists[key]

    async def _filled(self, namespace: str, pattern: TopicPattern | None) -> TopicList:
        found = TopicList(namespace, pattern, self._clock)
        # Watch before reading: changes during the read are applied on top of it.
        found.cancel = self._events.watch(namespace, found.topic_changed)
        try:
            found.fill(await self._read(namespace, found))
        except BaseException:
            found.cancel()
            raise
        return found

    async def _read(self, namespace: str, wanted: TopicList) -> list[str]:
        names: list[str] = []
        async for part in self._source(namespace):
            names += filter(wanted.has, part)
            await yield_turn(self._clock)
        return names

    def _evict(self) -> None:
        """Remove the least recently used lists without watchers, except the newest."""
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
