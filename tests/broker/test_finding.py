"""Where messages of a log are: the last one, and those since a time."""

import pytest

from fakes.topics import TopicWorld, entry


@pytest.mark.parametrize(("batch", "index"), [(None, -1), (1, 0), (5, 4)])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_the_last_message(batch: int | None, index: int, cache_bytes: int) -> None:
    name = "persistent://public/default/topic-partition-3"
    world = TopicWorld(cache_bytes=cache_bytes, name=name)
    assert world.do(world.topic.last_message_id()) == (-1, -1, -1, 3)
    world.publish(entry(1), entry(2, batch))
    ledger, number = world.topic.log.position(1)
    assert world.do(world.topic.last_message_id()) == (ledger, number, index, 3)


def test_an_entry_without_readable_metadata_is_an_id_all_the_same() -> None:
    world = TopicWorld()
    world.publish(b"\xff\xff\xff")
    assert world.do(world.topic.last_message_id()) == (*world.topic.log.position(0), -1, -1)
    assert world.do(world.topic.first_since(5)) == 1
