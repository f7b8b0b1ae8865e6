"""A watcher of a list knows it in the end, whenever it came and however slowly it reads."""

from collections.abc import AsyncIterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakes.world import ManualClock, run
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_broker.names.topic_lists import TopicLists
from magnetar_broker.session.topic_watcher import TopicWatcher
from magnetar_proto.names import TopicName

NAMES = [f"persistent://a/b/{local}" for local in ("one", "two", "three")]
REST_SECONDS = 2e-6


class Reader:
    """A client that applies every update."""

    def __init__(self, listed: list[str]) -> None:
        self.names = set(listed)
        self.room = True

    def has_room(self) -> bool:
        return self.room

    def reply(self, update: Any) -> None:
        self.names -= set(update.deleted_topics)
        assert self.names.isdisjoint(update.new_topics), "no name is reported twice"
        self.names |= set(update.new_topics)


steps = st.one_of(
    st.tuples(st.sampled_from(["made", "deleted"]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["watch", "end", "slow", "fast"]), st.integers(0, 2)),
    st.tuples(st.sampled_from(["turn", "rest"]), st.none()),
)


@given(st.lists(steps, max_size=30))
def test_watchers_know_the_list(story: list[tuple[str, Any]]) -> None:
    clock, events, stored = ManualClock(), TopicEvents(), set[str]()

    async def read(namespace: str) -> AsyncIterator[list[str]]:
        yield sorted(stored)

    listed = run(TopicLists(events, read, clock).of("a/b"), clock)
    watching: dict[int, tuple[Reader, TopicWatcher]] = {}
    for kind, what in story:
        if kind in ("made", "deleted"):
            (stored.add if kind == "made" else stored.discard)(what)
            events.notify(TopicName.parse(what), kind == "made")
        elif kind == "turn":
            clock.pump()
        elif kind == "rest":
            clock.advance(REST_SECONDS)
        elif kind == "watch":
            if what in watching:
                watching[what][1].end()
            reader = Reader(listed.names)
            watching[what] = reader, TopicWatcher(reader, what, "public/default", listed)
        elif what in watching:
            reader, watcher = watching[what]
            reader.room = kind != "slow"
            watcher.write()
            if kind == "end":
                watching.pop(what)[1].end()
    clock.pump()
    clock.advance(1)
    for reader, watcher in watching.values():
        reader.room = True
        watcher.write()
        assert reader.names == stored
