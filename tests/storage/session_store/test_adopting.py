"""What a sole process does with the settled sessions of former ones: it checks and cleans them."""

import pytest

from magnetar_storage.errors import Unavailable
from magnetar_storage.session_store.session_record import SessionState
from magnetar_storage.wal.slot import HEAD_BYTES
from storage.session_store.small_world import World, slot_with


@pytest.fixture
def world() -> World:
    return World()


def test_a_sole_process_checks_segments_of_former_ones(world: World) -> None:
    left, own = world.segment(world.one, b"a"), world.segment(world.other, b"b")
    world.do(world.one.store.close())
    third = world.start()
    assert third.store.closed() == []
    world.do(third.store.adopt_settled())
    assert third.store.closed() == [left.segment]
    world.do(third.store.delete(left.segment))
    assert third.store.closed() == []
    assert world.entries(world.other, own.segment) == [b"b"]


def test_what_a_crash_has_left_of_a_settled_session_is_deleted(world: World) -> None:
    first, second = world.segment(world.one, b"a"), world.segment(world.one, b"b")
    world.do(world.one.store.settle())
    world.append(first, b"c")
    world.fail("delete")
    with pytest.raises(Unavailable):
        world.end(world.one)
    assert world.record(world.one).state is SessionState.SETTLED
    third = world.start()
    world.do(third.store.adopt_settled())
    assert "not cleaned up at present" in third.findings[-1].text
    assert slot_with(world, b"c")
    world.objects.fault = None
    world.objects.put("sessions/000001/0000000099000001", b"of an upload that came late")
    world.do(third.store.adopt_settled())
    logs = [world.objects.content(name) for name in names_in(world, "wal/00000001/")]
    assert {len(content) for content in logs} == {HEAD_BYTES}, "fences"
    assert len(names_in(world, "sessions/000001/")) == 3, "packs of both settlings, and a manifest"
    before = len(world.objects.log)
    world.do(third.store.adopt_settled())
    assert world.objects.log[before:] == ["list sessions/000001/"]
    assert world.entries(third, first.segment) == [b"a", b"c"]
    assert world.entries(third, second.segment) == [b"b"]


def test_a_session_that_was_closed_has_nothing_to_clean_up(world: World) -> None:
    world.segment(world.one, b"a")
    world.do(world.one.store.close())
    before = len(world.objects.log)
    world.do(world.other.store.adopt_settled())
    assert "list sessions/000001/" in world.objects.log[before:]
    assert not [line for line in world.objects.log[before:] if "wal/" in line or "delete" in line]


def test_a_pack_whose_deletion_was_cut_off_is_deleted(world: World) -> None:
    first = world.segment(world.one, b"a")
    world.do(first.seal())
    world.do(world.one.store.settle())
    second = world.segment(world.one, b"b")
    world.do(world.one.store.close())
    world.fail("delete")
    with pytest.raises(Unavailable):
        world.do(world.other.store.delete(first.segment))
    world.objects.fault = None
    assert len(names_in(world, "sessions/000001/")) == 3
    third = world.start()
    world.do(third.store.adopt_settled())
    assert len(names_in(world, "sessions/000001/")) == 2
    assert world.entries(third, second.segment) == [b"b"]
    world.do(third.store.delete(second.segment))
    assert names_in(world, "sessions/000001/") == []


def names_in(world: World, prefix: str) -> list[str]:
    return [name for name in world.objects.names() if name.startswith(prefix)]
