"""Metadata that is older than the objects: a backup was restored, or a follower promoted."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from fakes.origins import MESSAGES
from fakes.session_stores import SMALL, Process, SessionWorld
from fakes.world import ManualClock, start
from magnetar_storage.errors import Incomplete, NoSegment, Unavailable
from magnetar_storage.interfaces import SegmentWriter
from magnetar_storage.objects.interfaces import ListedObject
from magnetar_storage.session_store import takeover
from magnetar_storage.session_store.session_record import key_of

ROOMY = replace(SMALL, settle_bytes=5000, settle_slots=99, most_slots=200)


class World(SessionWorld):
    """Processes that write to packs only when they are told to."""

    def __init__(self) -> None:
        super().__init__(ManualClock(), 1, ROOMY)
        self.one, self.other = self.start("broker-1"), self.start("broker-2")

    def append(self, writer: SegmentWriter, count: int) -> None:
        for _ in range(count):
            outcomes: list[BaseException | None] = []
            writer.append([b"x"], [1], outcomes.append)
            while not outcomes:
                assert self.clock.step() or self.step()
            assert outcomes == [None]

    def segment(self, process: Process, count: int = 1) -> SegmentWriter:
        writer = self.do(process.store.create(MESSAGES))
        self.append(writer, count)
        return writer

    def record(self, process: Process) -> bytes:
        found = self.do(self.metadata.get(key_of(process.store.session)))
        assert found is not None
        return found.value

    def restore(self, process: Process, record: bytes) -> None:
        self.do(self.metadata.put(key_of(process.store.session), record))

    def content(self) -> dict[str, bytes]:
        return {name: self.objects.content(name) for name in self.objects.names()}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(takeover, "SLOTS_BEHIND", 2)
    return World()


@pytest.mark.parametrize("end", ["kill", "close"])
def test_the_number_of_a_newer_session_is_not_given_again(world: World, end: str) -> None:
    third = world.start()
    world.segment(third)
    record = world.record(third)
    third.kill() if end == "kill" else world.do(third.store.close())
    before = world.content()
    world.do(world.metadata.delete(key_of(3)))
    with pytest.raises(Incomplete, match=r"older than the objects: it knows sessions up to 2,"):
        world.start()
    assert world.content() == before
    world.restore(third, record)
    assert world.start().store.session == 4


def settle_and_go_on(world: World) -> None:
    writer = world.segment(world.one, 4)
    world.do(world.one.store.settle())
    world.append(writer, 2)
    world.one.kill()


def die_and_leave_a_fence(world: World) -> None:
    writer = world.segment(world.one, 4)
    world.one.kill()
    world.do(world.other.store.end_session(1))
    world.do(world.other.store.delete(writer.segment))


def close(world: World) -> None:
    world.segment(world.one)
    world.do(world.one.store.close())


@pytest.mark.parametrize(
    ("happened", "why"),
    [
        (settle_and_go_on, "slot 0 of its log is missing, and there is slot 6"),
        (die_and_leave_a_fence, "slot 0 of its log is missing, and the log ends with slot 5"),
        (close, "by its record it has stored nothing, and there are its segments"),
    ],
)
def test_a_takeover_with_an_older_record_changes_no_object(
    world: World, happened: Callable[[World], None], why: str
) -> None:
    older = world.record(world.one)
    happened(world)
    newer, before = world.record(world.one), world.content()
    world.restore(world.one, older)
    third = world.start()
    for _ in range(2):
        with pytest.raises(Incomplete, match=why) as caught:
            world.do(third.store.end_session(1))
        assert "docs/cluster.md" in str(caught.value)
        assert world.content() == before
    world.restore(world.one, newer)
    world.do(world.start().store.end_session(1))


def test_an_older_record_that_names_a_manifest_which_was_replaced_is_not_used(
    world: World,
) -> None:
    writer = world.segment(world.one)
    world.do(world.one.store.settle())
    older = world.record(world.one)
    world.append(writer, 1)
    world.do(world.one.store.close())
    newer, before = world.record(world.one), world.content()
    world.restore(world.one, older)
    third = world.start()
    with pytest.raises(Unavailable, match="Restore the newer metadata, or put the object back"):
        world.do(third.store.end_session(1))
    assert world.content() == before
    world.restore(world.one, newer)
    assert world.do(third.store.recover(writer.segment)).entries == 2


def test_a_listing_that_lacks_a_slot_is_no_contradiction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = world.segment(world.one, 6)
    world.one.kill()
    listed = world.objects.list

    def lacking(prefix: str) -> Iterator[ListedObject]:
        return (each for each in listed(prefix) if not each.name.endswith("00000001"))

    monkeypatch.setattr(world.objects, "list", lacking)
    world.do(world.other.store.end_session(1))
    assert world.do(world.other.store.recover(writer.segment)).entries == 6


def test_what_a_takeover_has_left_half_done_is_no_contradiction(world: World) -> None:
    """A crash between a barrier and the end of the log, and before the record has the end."""
    for count in range(1, 8):
        process = world.start()
        writer = world.segment(process, count)
        process.kill()
        number = process.store.session
        third = world.start()
        ending = start(third.store.end_session(number))
        for _ in range(3 * count):
            world.clock.pump()
            third.threads[2].step()
        third.kill()
        del ending
        world.do(world.other.store.end_session(number))
        assert world.do(world.other.store.recover(writer.segment)).entries == count
        world.do(world.other.store.delete(writer.segment))
        with pytest.raises(NoSegment):
            world.do(world.other.store.recover(writer.segment))
