"""Lists of topics in memory, which follow what comes and goes."""

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from fakes.world import ManualClock, ManualPromise, run, start
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_lists import Change, TopicLists
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_proto.hashes import topics_hash
from magnetar_proto.names import TopicName

NAMESPACE = "a/b"
NAMES = [f"persistent://a/b/{local}" for local in ("apple", "apricot", "beet", "plum")]


class World:
    """Stored names, and lists of them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.events = TopicEvents()
        self.stored: set[str] = set()
        self.reads = 0
        self.gate: ManualPromise | None = None
        self.lists = TopicLists(self.events, self.read, self.clock)

    async def read(self, namespace: str) -> AsyncIterator[list[str]]:
        self.reads += 1
        for name in sorted(self.stored):
            yield [name]
            if self.gate is not None:
                await self.gate

    def change(self, name: str, exists: bool) -> None:
        (self.stored.add if exists else self.stored.discard)(name)
        self.events.notify(TopicName.parse(name), exists)

    def names(self, pattern: str | None = None) -> list[str]:
        wanted = None if pattern is None else TopicPattern(pattern)
        listed = run(self.lists.of(NAMESPACE, wanted), self.clock)
        assert listed.hash == topics_hash(listed.names)
        return listed.names


class Ear:
    """Records what it was notified of, and how often."""

    def __init__(self) -> None:
        self.received: list[list[Change]] = []

    def changed(self, changes: list[Change]) -> None:
        self.received.append(changes)


def test_a_list_is_read_once_and_follows_what_happens() -> None:
    world = World()
    world.stored = set(NAMES[1:3])
    assert world.names() == NAMES[1:3]
    world.change(NAMES[0], True)
    world.change(NAMES[2], False)
    world.change(NAMES[2], False)
    assert world.names() == NAMES[:2]
    assert world.reads == 1


def test_what_stood_in_the_list_is_no_news_to_a_watcher_that_has_come_since() -> None:
    world = World()
    listed, first, second = run(world.lists.of(NAMESPACE), world.clock), Ear(), Ear()
    listed.add(first)
    world.change(NAMES[0], True)
    listed.add(second)
    world.change(NAMES[0], False)
    world.clock.pump()
    assert [change for reported in first.received for change in reported] == [
        (NAMES[0], True),
        (NAMES[0], False),
    ]
    assert second.received == [[(NAMES[0], False)]]


def test_a_list_of_a_pattern_has_what_matches() -> None:
    world = World()
    world.stored = set(NAMES)
    assert world.names(".*/ap.*") == NAMES[:2]
    world.change(NAMES[0], False)
    world.change(NAMES[3], False)
    assert world.names(".*/ap.*") == [NAMES[1]]


def test_system_topics_are_in_no_list() -> None:
    world = World()
    world.names()
    world.change("persistent://a/b/__change_events", True)
    assert world.names() == []


def test_what_happens_while_a_list_is_read_is_in_it() -> None:
    world = World()
    world.stored = {NAMES[0], NAMES[2]}
    world.gate = world.clock.promise()
    first, second = (start(world.lists.of(NAMESPACE)) for _ in range(2))
    world.events.notify(TopicName.parse(NAMES[0]), False)
    world.events.notify(TopicName.parse(NAMES[3]), True)
    world.gate.set_result(None)
    world.clock.pump()
    assert first.result().names == NAMES[2:]
    assert second.result() is first.result()
    assert world.reads == 1


def test_a_list_that_cannot_be_read_is_read_another_time() -> None:
    world = World()
    world.stored = set(NAMES)
    world.gate = world.clock.promise()
    failing = start(world.lists.of(NAMESPACE))
    world.gate.set_exception(OSError("rot"))
    world.clock.pump()
    assert isinstance(failing._error, OSError)
    world.gate = None
    assert world.names() == NAMES


def test_watchers_are_notified_at_once_and_then_of_gathered_changes() -> None:
    world, ear = World(), Ear()
    listed = run(world.lists.of(NAMESPACE), world.clock)
    listed.add(ear)
    world.change(NAMES[0], True)
    world.clock.pump()
    assert ear.received == [[(NAMES[0], True)]]
    world.change(NAMES[1], True)
    world.change(NAMES[0], False)
    world.clock.pump()
    assert len(ear.received) == 1
    world.clock.advance(1)
    assert ear.received[1:] == [[(NAMES[1], True), (NAMES[0], False)]]
    world.clock.advance(1)
    listed.watchers.discard(ear)
    world.change(NAMES[0], True)
    world.clock.pump()
    assert len(ear.received) == 2


def test_lists_without_watchers_are_evicted_when_there_are_many() -> None:
    world = World()
    world.stored = set(NAMES)
    watched = run(world.lists.of(NAMESPACE), world.clock)
    watched.add(Ear())
    for number in range(1100):
        run(world.lists.of(NAMESPACE, TopicPattern(f".*/x{number}")), world.clock)
    assert len(world.lists._lists) <= 1000
    assert run(world.lists.of(NAMESPACE), world.clock) is watched
    assert sum(map(len, world.events._listeners.values())) == len(world.lists._lists)


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.booleans())), st.sampled_from([None, ".*/a.*"])
)
def test_a_list_is_what_reading_it_anew_would_give(
    changes: list[tuple[str, bool]], pattern: str | None
) -> None:
    world, fresh = World(), World()
    world.names(pattern)
    for change in changes:
        world.change(*change)
    fresh.stored = world.stored
    assert world.names(pattern) == fresh.names(pattern)
