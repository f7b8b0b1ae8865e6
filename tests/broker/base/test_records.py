"""JSON objects in the metadata store."""

from collections.abc import Callable
from typing import Any

import pytest

from fakes.logs import LogWorld
from fakes.outages import OutageWorld
from fakes.unreliable_metadata import Fate
from magnetar_broker.base import records
from magnetar_broker.base.records import (
    change_record,
    create_record,
    has_record,
    keys_under,
    next_number,
    read_record,
)


def test_one_is_made_once_and_changed_as_often_as_you_like() -> None:
    world = LogWorld()
    do, metadata = world.do, world.metadata
    assert not do(has_record(metadata, "/a"))
    assert do(read_record(metadata, "/a")) is None
    assert not do(change_record(metadata, "/a", dict))
    assert do(create_record(metadata, "/a", {"one": 1}))
    assert not do(create_record(metadata, "/a", {"two": 2}))
    assert do(change_record(metadata, "/a", lambda fields: fields | {"three": 3}))
    assert do(read_record(metadata, "/a")) == {"one": 1, "three": 3}
    assert do(has_record(metadata, "/a"))


def test_a_longer_key_is_another_one() -> None:
    world = LogWorld()
    world.do(create_record(world.metadata, "/ab", {}))
    assert not world.do(has_record(world.metadata, "/a"))


def test_changes_at_the_same_time_are_both_made() -> None:
    world = LogWorld()
    metadata = world.metadata
    world.do(create_record(metadata, "/a", {}))
    gate, get = world.clock.promise(), metadata.get

    async def slowly(key: str) -> Any:
        found = await get(key)
        await gate
        return found

    metadata.get = slowly  # type: ignore[method-assign]

    def adding(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda fields: fields | {name: 1}

    changes = [world.begin(change_record(metadata, "/a", adding(name))) for name in "xy"]
    gate.set_result(None)
    world.clock.pump()
    assert [change.result() for change in changes] == [True, True]
    assert world.do(read_record(metadata, "/a")) == {"x": 1, "y": 1}


@pytest.mark.parametrize("stored", [0, 3, 4, 5, 9])
def test_all_keys_are_listed_page_by_page(stored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PAGE", 4)
    world = LogWorld()
    for number in range(stored):
        world.do(create_record(world.metadata, f"/a/{number}", {}))
    world.do(create_record(world.metadata, "/b/0", {}))
    assert world.do(keys_under(world.metadata, "/a/")) == [str(n) for n in range(stored)]


def test_two_processes_that_count_at_once_get_two_numbers() -> None:
    """The writes of both differ, though both count up to the same number."""
    world = OutageWorld()
    assert world.do(next_number(world.engine.metadata, "/a", "first")) == 1
    world.unreliable.fates.append(Fate.NOT_MADE)
    begun = world.begin(next_number(world.engine.metadata, "/a", "mine"))
    assert world.do(next_number(world.unreliable, "/a", "another's")) == 2
    world.clock.advance(1)
    assert begun.result() == 3


def test_a_number_is_counted_once_though_an_answer_is_lost() -> None:
    world = OutageWorld()
    for number in range(1, 4):
        world.unreliable.fates += [Fate.LOST, Fate.LATE]
        assert world.do(next_number(world.engine.metadata, "/a", f"nonce {number}")) == number
