"""Who is notified of topics that are created and deleted."""

from magnetar_broker.names.topic_events import TopicEvents
from magnetar_proto.names import TopicName

ONE = TopicName.parse("persistent://a/b/one")
ELSEWHERE = TopicName.parse("persistent://a/c/one")


def test_listeners_are_notified_of_their_namespace_until_they_cancel() -> None:
    events = TopicEvents()
    received: list[tuple[TopicName, bool]] = []
    cancel = events.watch("a/b", lambda name, exists: received.append((name, exists)))
    events.notify(ONE, True)
    events.notify(ELSEWHERE, True)
    events.notify(ONE, False)
    cancel()
    events.notify(ONE, True)
    assert received == [(ONE, True), (ONE, False)]


def test_cancelling_twice_leaves_the_others() -> None:
    events = TopicEvents()
    received: list[str] = []
    first = events.watch("a/b", lambda name, exists: received.append("first"))
    events.watch("a/b", lambda name, exists: received.append("second"))
    first()
    first()
    events.notify(ONE, True)
    assert received == ["second"]


def test_a_listener_may_cancel_while_it_is_notified() -> None:
    events = TopicEvents()
    received: list[str] = []

    def once(name: TopicName, exists: bool) -> None:
        received.append("once")
        cancel()

    cancel = events.watch("a/b", once)
    events.watch("a/b", lambda name, exists: received.append("always"))
    events.notify(ONE, True)
    events.notify(ONE, True)
    assert received == ["once", "always", "always"]
