"""Where messages of a log are: the last one, and those since a time."""

import pytest

from fakes.topics import TopicWorld, entry
from magnetar_broker.subscriptions.finding import first_since, last_message_id
from magnetar_proto.ids import MessageId


def last(world: TopicWorld) -> MessageId:
    return world.do(last_message_id(world.topic.log, world.topic.name.partition))


@pytest.mark.parametrize(("batch", "index"), [(None, -1), (1, 0), (5, 4)])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_the_last_message(batch: int | None, index: int, cache_bytes: int) -> None:
    name = "persistent://public/default/topic-partition-3"
    world = TopicWorld(cache_bytes=cache_bytes, name=name)
    assert last(world) == (-1, -1, -1, 3)
    world.publish(entry(1), entry(2, batch))
    ledger, number = world.topic.log.position(1)
    assert last(world) == (
        ledger,
        number,
        index,
        3,
    )


def test_an_entry_without_readable_metadata_is_an_id_all_the_same() -> None:
    world = TopicWorld()
    world.publish(b"\xff\xff\xff")
    assert last(world) == (
        *world.topic.log.position(0),
        -1,
        -1,
    )
    assert world.do(first_since(world.topic.log, 5)) == 1
