"""What a client has open by id, when it closes and opens the same id again."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fakes.world import ManualPromise, start
from magnetar_broker.base.errors import NotAllowed, NotReady
from magnetar_broker.base.wanted import Check
from magnetar_broker.session.slots import Slots


class Thing:
    """Something that can be opened; `made` when the test wants it."""

    def __init__(self) -> None:
        self.ready = ManualPromise()
        self.closed = False

    async def make(self, check: Check) -> "Thing":
        await self.ready
        return self

    def close(self) -> None:
        self.closed = True


def fill(slots: Slots[Thing], make: Callable[[Check], Coroutine[Any, Any, Thing]]) -> ManualPromise:
    return start(slots.fill(1, make))


def test_what_was_made_is_open() -> None:
    slots: Slots[Thing] = Slots("thing")
    thing = Thing()
    filling = fill(slots, thing.make)
    assert slots.get(1) is None
    with pytest.raises(NotReady, match="thing 1 is being created"):
        fill(slots, Thing().make).result()
    thing.ready.set_result(None)
    assert filling.result() is slots[1] is thing
    assert slots.free(1) is thing
    assert (slots.free(1), thing.closed) == (None, False)


@pytest.mark.parametrize("first_to_be_made", [0, 1])
def test_of_two_with_a_free_in_between_the_second_counts(first_to_be_made: int) -> None:
    slots: Slots[Thing] = Slots("thing")
    things = [Thing(), Thing()]
    first = fill(slots, things[0].make)
    assert slots.free(1) is None
    second = fill(slots, things[1].make)
    things[first_to_be_made].ready.set_result(None)
    things[1 - first_to_be_made].ready.set_result(None)
    with pytest.raises(NotReady, match="was closed"):
        first.result()
    assert second.result() is slots[1] is things[1]
    assert [thing.closed for thing in things] == [True, False]


def test_what_cannot_be_made_leaves_the_id_free() -> None:
    slots: Slots[Thing] = Slots("thing")
    failing, late = Thing(), Thing()
    filling = fill(slots, failing.make)
    slots.free(1)
    again = fill(slots, late.make)
    failing.ready.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        filling.result()
    late.ready.set_exception(ValueError("neither"))
    with pytest.raises(ValueError, match="neither"):
        again.result()
    thing = Thing()
    thing.ready.set_result(None)
    assert fill(slots, thing.make).result() is thing


def test_what_is_replaced_is_closed_before_even_if_nothing_replaces_it() -> None:
    slots: Slots[Thing] = Slots("thing")
    held, failing = Thing(), Thing()
    held.ready.set_result(None)
    fill(slots, held.make)
    filling = fill(slots, failing.make)
    assert held.closed
    failing.ready.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        filling.result()
    assert slots == {}


def test_closing_all_reaches_what_is_being_made() -> None:
    slots: Slots[Thing] = Slots("thing")
    held, late = Thing(), Thing()
    held.ready.set_result(None)
    fill(slots, held.make)
    filling = start(slots.fill(2, late.make))
    slots.close_all()
    assert (held.closed, slots) == (True, {})
    late.ready.set_result(None)
    with pytest.raises(NotReady):
        filling.result()
    assert (late.closed, slots) == (True, {})


def test_nothing_is_opened_behind_the_end() -> None:
    slots: Slots[Thing] = Slots("thing")
    slots.close_all()
    late = Thing()
    late.ready.set_result(None)
    with pytest.raises(NotReady, match="is closed"):
        fill(slots, late.make).result()
    assert slots == {}


def test_a_limit_counts_what_is_being_created_and_frees_what_is_closed() -> None:
    slots: Slots[Thing] = Slots("thing", lambda: 1, "maxThings")
    thing = Thing()
    filling = fill(slots, thing.make)
    with pytest.raises(NotAllowed, match="maxThings"):
        start(slots.fill(2, Thing().make)).result()
    thing.ready.set_result(None)
    filling.result()
    with pytest.raises(NotAllowed):
        start(slots.fill(2, Thing().make)).result()
    slots.close(1)
    assert not start(slots.fill(2, Thing().make)).done()
