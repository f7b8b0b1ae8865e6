"""Who is told of topics that come and go."""

from magnetar_broker.names.topic_events import TopicEvents
from magnetar_proto.names import TopicName

ONE = TopicName.parse("persistent://a/b/one")
ELSEWHERE = TopicName.parse("persistent://a/c/one")


def test_listeners_hear_of_their_namespace_until_they_cancel() -> None:
    events = TopicEvents()
    heard: list[tuple[TopicName, bool]] = []
    cancel = events.watch("a/b", lambda name, exists: heard.append((name, exists)))
    events.notify(ONE, True)
    events.notify(ELSEWHERE, True)
    events.notify(ONE, False)
    cancel()
    events.notify(ONE, True)
    assert heard == [(ONE, True), (ONE, False)]


def test_cancelling_twice_leaves_the_others() -> None:
    events = TopicEvents()
    heard: list[str] = []
    first = events.watch("a/b", lambda name, exists: heard.append("first"))
    events.watch("a/b", lambda name, exists: heard.append("second"))
    first()
    first()
    events.notify(ONE, True)
    assert heard == ["second"]


def test_a_listener_may_cancel_while_it_is_told() -> None:
    events = TopicEvents()
    heard: list[str] = []

    def once(name: TopicName, exists: bool) -> None:
        heard.append("once")
        cancel()

    cancel = events.watch("a/b", once)
    events.watch("a/b", lambda name, exists: heard.append("always"))
    events.notify(ONE, True)
    events.notify(ONE, True)
    assert heard == ["once", "always", "always"]
