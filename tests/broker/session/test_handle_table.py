"""What a client has open by id, when it closes and opens the same id again."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fakes.world import ManualPromise, start
from magnetar_broker.base.errors import NotAllowed, NotReady
from magnetar_broker.base.wanted import Check
from magnetar_broker.session.handle_table import HandleTable


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


def fill(
    handles: HandleTable[Thing], make: Callable[[Check], Coroutine[Any, Any, Thing]]
) -> ManualPromise:
    return start(handles.fill(1, make))


def test_what_was_made_is_open() -> None:
    handles: HandleTable[Thing] = HandleTable("thing")
    thing = Thing()
    filling = fill(handles, thing.make)
    assert handles.get(1) is None
    with pytest.raises(NotReady, match="thing 1 is being created"):
        fill(handles, Thing().make).result()
    thing.ready.set_result(None)
    assert filling.result() is handles[1] is thing
    assert handles.free(1) is thing
    assert (handles.free(1), thing.closed) == (None, False)


@pytest.mark.parametrize("first_to_be_made", [0, 1])
def test_of_two_with_a_free_in_between_the_second_counts(first_to_be_made: int) -> None:
    handles: HandleTable[Thing] = HandleTable("thing")
    things = [Thing(), Thing()]
    first = fill(handles, things[0].make)
    assert handles.free(1) is None
    second = fill(handles, things[1].make)
    things[first_to_be_made].ready.set_result(None)
    things[1 - first_to_be_made].ready.set_result(None)
    with pytest.raises(NotReady, match="was closed"):
        first.result()
    assert second.result() is handles[1] is things[1]
    assert [thing.closed for thing in things] == [True, False]


def test_what_cannot_be_made_leaves_the_id_free() -> None:
    handles: HandleTable[Thing] = HandleTable("thing")
    failing, late = Thing(), Thing()
    filling = fill(handles, failing.make)
    handles.free(1)
    again = fill(handles, late.make)
    failing.ready.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        filling.result()
    late.ready.set_exception(ValueError("neither"))
    with pytest.raises(ValueError, match="neither"):
        again.result()
    thing = Thing()
    thing.ready.set_result(None)
    assert fill(handles, thing.make).result() is thing


def test_what_is_replaced_is_closed_before_even_if_nothing_replaces_it() -> None:
    handles: HandleTable[Thing] = HandleTable("thing")
    held, failing = Thing(), Thing()
    held.ready.set_result(None)
    fill(handles, held.make)
    filling = fill(handles, failing.make)
    assert held.closed
    failing.ready.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        filling.result()
    assert handles == {}


def test_closing_all_reaches_what_is_being_made() -> None:
    handles: HandleTable[Thing] = HandleTable("thing")
    held, late = Thing(), Thing()
    held.ready.set_result(None)
    fill(handles, held.make)
    filling = start(handles.fill(2, late.make))
    handles.close_all()
    assert (held.closed, handles) == (True, {})
    late.ready.set_result(None)
    with pytest.raises(NotReady):
        filling.result()
    assert (late.closed, handles) == (True, {})


def test_nothing_is_opened_behind_the_end() -> None:
    handles: HandleTable[Thing] = HandleTable("thing")
    handles.close_all()
    late = Thing()
    late.ready.set_result(None)
    with pytest.raises(NotReady, match="is closed"):
        fill(handles, late.make).result()
    assert handles == {}


def test_a_limit_counts_what_is_being_created_and_frees_what_is_closed() -> None:
    handles: HandleTable[Thing] = HandleTable("thing", lambda: 1, "maxThings")
    thing = Thing()
    filling = fill(handles, thing.make)
    with pytest.raises(NotAllowed, match="maxThings"):
        start(handles.fill(2, Thing().make)).result()
    thing.ready.set_result(None)
    filling.result()
    with pytest.raises(NotAllowed):
        start(handles.fill(2, Thing().make)).result()
    handles.close(1)
    assert not start(handles.fill(2, Thing().make)).done()
