"""How many topics a namespace has: who listens to them, and until when."""

from collections.abc import Callable

import pytest

from fakes.named_worlds import NAMESPACE, NamedWorld, named
from magnetar_broker.base.errors import LimitReached
from magnetar_broker.names.counts import TopicCounts
from magnetar_broker.names.topic_events import Listener, TopicEvents
from magnetar_storage.errors import Unavailable


class CountingEvents(TopicEvents):
    """Knows how many listen."""

    def __init__(self) -> None:
        super().__init__()
        self.listening = 0

    def watch(self, namespace: str, listener: Listener) -> Callable[[], None]:
        cancel = super().watch(namespace, listener)
        self.listening += 1

        def counted() -> None:
            self.listening -= 1
            cancel()

        return counted


def test_a_failed_listing_leaves_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    world, events = NamedWorld(), CountingEvents()
    world.topic(named("one"))
    counts = TopicCounts(world.directory.catalogue, events, world.clock)

    async def room(limit: int) -> None:
        async with counts.room(NAMESPACE, 1, limit):
            assert events.listening == (limit > 0)

    async def fail(*asked: object) -> None:
        raise Unavailable("not now")

    with monkeypatch.context() as patch:
        patch.setattr(world.metadata, "list", fail)
        for _ in range(3):
            with pytest.raises(Unavailable):
                world.do(room(2))
            assert events.listening == 0
    world.do(room(2))
    assert events.listening == 1
    events.notify(named("two"), True)
    with pytest.raises(LimitReached, match="2 topics"):
        world.do(room(2))
    world.do(room(0))
    assert events.listening == 0
