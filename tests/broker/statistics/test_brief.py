"""The list of all topics: figures of each as JSON, made a little at a time."""

import json

import pytest

from fakes.topics import SHARED, TopicWorld, entry
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.server.admin.brokers.broker_stats import _object
from magnetar_broker.statistics.brief import PAUSE_AFTER, brief_stats, encoded
from magnetar_broker.statistics.internal import internal_stats
from magnetar_storage.errors import Unavailable


async def unreadable() -> Backlog:
    """Of a subscription on a disk that is gone."""
    raise Unavailable("the disk is gone")


def test_the_fields_of_the_cursor_are_those_of_the_stored_topic() -> None:
    world = TopicWorld()
    consumer = world.subscribe(sub_type=SHARED, permits=10, earliest=True)
    world.publish(*(entry(0) for _ in range(6)))
    world.ack(consumer, 2, 4)
    found = world.do(brief_stats(world.topic))
    stored = internal_stats(world.topic, False)
    cursor, brief = stored["cursors"]["sub"], found["subscriptions"]["sub"]
    for name in (
        "numberOfEntriesSinceFirstNotAckedMessage",
        "totalNonContiguousDeletedMessagesRange",
    ):
        assert brief[name] == cursor[name] > 0, name
    assert found["pendingAddEntriesCount"] == stored["pendingAddEntriesCount"] == 0


def test_a_topic_whose_backlog_cannot_be_counted_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole, damaged = TopicWorld(), TopicWorld(name="persistent://public/default/damaged")
    damaged.subscribe()
    monkeypatch.setattr(damaged.subscription(), "backlog", unreadable)
    found = whole.do(encoded([damaged.topic, whole.topic], whole.clock))
    assert [name for name, _ in found] == [str(whole.topic.name)]
    assert json.loads(found[0][1]) == whole.do(brief_stats(whole.topic))
    assert "damaged is left out of the list of all topics: the disk is gone" in caplog.text


def test_others_have_their_turns_after_so_many_subscriptions() -> None:
    world = TopicWorld()
    for number in range(PAUSE_AFTER - 1):
        world.subscribe(sub=f"sub-{number}")
    outcome = world.begin(encoded([world.topic, world.topic], world.clock))
    assert not outcome.done()
    world.clock.pump()
    assert len(outcome.result()) == 2


@pytest.mark.parametrize(
    "value", [{}, {"a": {}}, {"a": {"b": {"t": [1]}, 'c"': {"t": [2], "u": [3]}}, "d": {"e": {}}}]
)
def test_an_answer_in_parts_is_the_same_json(value: dict[str, object]) -> None:
    def leaves_encoded(members: dict[str, object]) -> dict[str, object]:
        return {
            name: leaves_encoded(one) if isinstance(one, dict) else json.dumps(one).encode()
            for name, one in members.items()
        }

    assert b"".join(_object(leaves_encoded(value))) == json.dumps(value).encode()
