"""Session stores of one and of several processes: what is left, refused, found and deleted."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fakes.origins import MESSAGES
from fakes.session_stores import SMALL, Process
from fakes.unreliable_metadata import Fate
from fakes.world import run, start
from magnetar_storage.errors import Corrupt, Fenced, NoSegment, StorageError, Unavailable
from magnetar_storage.interfaces import DamagedEntries
from magnetar_storage.session_store.session_record import (
    SessionState,
    key_of,
)
from storage.session_store.small_world import World, slot_with

EVER = 1 << 60


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def roomy() -> World:
    """Processes that write to packs only when they are told to."""
    return World(replace(SMALL, settle_bytes=5000, settle_slots=99, most_slots=200))


def test_a_process_that_stops_in_order_needs_no_takeover(world: World) -> None:
    writer = world.segment(world.one, b"a", b"b")
    assert world.do(world.other.store.open_sessions()) == {1: "broker-1"}
    world.do(world.one.store.close())
    assert world.record(world.one).state is SessionState.SETTLED
    assert world.do(world.other.store.open_sessions()) == {}
    assert not [name for name in world.objects.names() if name.startswith("wal/00000001/")]
    assert world.entries(world.other, writer.segment) == [b"a", b"b"]
    assert world.do(world.other.store.recover(writer.segment)) == (2, 2, 2)


def test_an_idle_process_makes_no_requests(world: World) -> None:
    world.segment(world.one, b"a")
    world.settle()
    before = list(world.objects.log)
    world.clock.advance(3600)
    world.settle()
    assert world.objects.log == before


def test_nothing_but_a_fence_is_left_of_a_session_without_segments(world: World) -> None:
    segments = [world.segment(world.one, b"a", b"b").segment for _ in range(3)]
    world.do(world.one.store.settle())
    world.segment(world.one)
    world.end(world.one)
    for segment in world.orphans(world.other):
        world.do(world.other.store.delete(segment))
    assert world.record(world.one).state is SessionState.GONE
    names = world.objects.names()
    assert all(name.startswith("wal/00000001/") for name in names)
    assert len(names) <= 3, "the fence, and barriers"
    with pytest.raises(NoSegment):
        world.do(world.other.store.recover(segments[0]))
    world.do(world.other.store.delete(segments[0]))
    world.do(world.other.store.end_session(world.one.store.session))


def test_a_pack_goes_with_its_last_segment(world: World) -> None:
    first, second, third = (world.segment(world.one, b"a", b"b").segment for _ in range(3))
    world.do(world.one.store.close())
    before = world.objects.names()
    world.do(world.other.store.delete(first))
    assert world.objects.names() == before
    assert world.entries(world.other, second) == [b"a", b"b"]
    assert world.orphans(world.other) == [second, third]
    for segment in (second, third):
        world.do(world.other.store.delete(segment))
    assert world.objects.names() == []


def test_a_manifest_is_replaced_when_much_of_it_was_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magnetar_storage.session_store.deleting.MOST_DELETED", 3)
    segments = [world.segment(world.one, b"%d" % n).segment for n in range(8)]
    world.do(world.one.store.close())
    before = world.record(world.one).manifest
    third = world.start()
    deleting = [
        start(process.store.delete(segment))
        for process, segment in zip([world.other, third] * 4, segments[:7], strict=False)
    ]
    world.settle()
    assert [each.result() for each in deleting] == [None] * 7
    record = world.record(world.one)
    assert record.manifest != before and len(record.deleted) < 7
    for process in (world.other, third, world.start()):
        assert world.orphans(process) == segments[7:]
        assert world.entries(process, segments[7]) == [b"7"]
        with pytest.raises(NoSegment):
            world.do(process.store.recover(segments[0]))
    world.do(world.other.store.delete(segments[7]))
    assert [name for name in world.objects.names() if "sessions/000001" in name] == []


def test_packs_of_a_living_process_go_with_its_segments(world: World) -> None:
    first, second = world.segment(world.one, b"a"), world.segment(world.one, b"b")
    world.do(world.one.store.settle())
    world.do(world.one.store.delete(first.segment))
    world.do(world.one.store.delete(second.segment))
    world.do(world.one.store.settle())
    assert len([name for name in world.objects.names() if name.startswith("sessions/")]) == 1


def test_what_is_left_of_a_pack_is_moved(roomy: World) -> None:
    segments = [roomy.segment(roomy.one, b"%d" % n * 90).segment for n in range(5)]
    for segment in segments:
        roomy.do(roomy.one.store.recover(segment))
    roomy.do(roomy.one.store.settle())
    reader = roomy.do(roomy.other.store.reader(segments[4]))
    (pack,) = (name for name in roomy.objects.names() if b"MAGNSEGM" in roomy.objects.content(name))
    for segment in segments[:3]:
        roomy.do(roomy.one.store.delete(segment))
    roomy.do(roomy.one.store.settle())
    assert pack not in roomy.objects.names()
    assert sum(len(roomy.objects.content(name)) for name in roomy.objects.names()) < 1000
    assert roomy.entries(roomy.one, segments[3]) == [b"3" * 90]
    assert roomy.do(reader.read(0, 9, 99)).payloads == [b"4" * 90]
    assert roomy.do(reader.stored_bytes(0, 1)).endswith(b"4" * 90)
    before = roomy.objects.names()
    roomy.do(roomy.one.store.settle())
    assert len(roomy.objects.names()) == len(before)
    assert set(before) & set(roomy.objects.names()), "nothing is moved twice"


def test_a_segment_in_many_parts_is_joined(roomy: World) -> None:
    writer = roomy.segment(roomy.one)
    for n in range(5):
        roomy.append(writer, b"%d" % n)
        roomy.do(roomy.one.store.settle())
    assert len(roomy.objects.names()) >= 6
    roomy.do(writer.seal())
    roomy.do(roomy.one.store.settle())
    roomy.do(roomy.one.store.settle())
    names = [name for name in roomy.objects.names() if name.startswith("sessions/")]
    assert len(names) == 2, "a pack and the manifest"
    for process in (roomy.one, roomy.other):
        assert roomy.entries(process, writer.segment) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_segment_that_is_deleted_while_it_is_moved_is_left_out(roomy: World) -> None:
    segments = [roomy.segment(roomy.one, b"%d" % n * 90).segment for n in range(4)]
    for segment in segments:
        roomy.do(roomy.one.store.recover(segment))
    roomy.do(roomy.one.store.settle())
    for segment in segments[:2]:
        roomy.do(roomy.one.store.delete(segment))
    moving, deleting = (
        start(roomy.one.store.settle()),
        start(roomy.one.store.delete(segments[2])),
    )
    for _ in range(40):  # the deletion is durable while the thread of packs stands still
        roomy.clock.pump()
        roomy.clock.advance(0.1)
        for upload in roomy.one.threads[:2]:
            upload.step()
    roomy.settle()
    moving.result(), deleting.result()
    assert roomy.orphans(roomy.one) == [segments[3]]
    assert roomy.entries(roomy.one, segments[3]) == [b"3" * 90]


def test_a_segment_that_another_process_deletes_does_not_come_back(world: World) -> None:
    handed_over, growing = world.segment(world.one, b"a"), world.segment(world.one, b"b")
    world.do(handed_over.seal())
    world.do(world.one.store.settle())
    for writer in (handed_over, growing):
        world.do(world.other.store.delete(writer.segment))
    with pytest.raises(Unavailable):
        world.do(world.other.store.recover(handed_over.segment))
    waiting = world.segment(world.one, b"c")
    world.do(waiting.seal())
    world.do(world.other.store.delete(waiting.segment))
    world.do(world.segment(world.one, b"d").seal())
    world.clock.advance(11)  # sealed segments are written to packs
    world.settle()
    assert isinstance(world.append(growing, b"late")[0], NoSegment)
    world.end(world.one)
    for writer in (handed_over, growing, waiting):
        with pytest.raises(NoSegment):
            world.do(world.other.store.recover(writer.segment))
    assert len(world.orphans(world.other)) == 1


def test_a_segment_that_is_appended_to_is_dropped_when_it_is_deleted_elsewhere(
    world: World,
) -> None:
    writer = world.segment(world.one, b"a")
    world.do(world.other.store.delete(writer.segment))
    outcomes: list[BaseException | None] = []
    writer.append([b"b"], [1], outcomes.append)
    world.do(world.one.store.settle())  # does not drop it: an append is on its way
    world.settle()
    assert outcomes == [None]
    world.do(world.one.store.settle())
    assert world.orphans(world.one) == []
    assert world.record(world.one).deleted == frozenset()
    world.end(world.one)
    assert world.orphans(world.other) == []


def test_sealed_segments_are_soon_readable_elsewhere(world: World) -> None:
    sealed, growing = world.segment(world.one, b"a"), world.segment(world.one, b"b")
    world.do(sealed.seal())
    with pytest.raises(Unavailable, match="broker-1, session 1"):
        world.do(world.other.store.recover(sealed.segment))
    world.clock.advance(SMALL.sealed_seconds)
    world.settle()
    assert world.do(world.other.store.recover(sealed.segment)) == (1, 1, 1)
    assert world.entries(world.other, sealed.segment) == [b"a"]
    for ask in (world.other.store.recover, world.other.store.reader):
        with pytest.raises(Unavailable):
            world.do(ask(growing.segment))
    assert world.append(growing, b"c") == [None]


def test_a_process_that_was_ended_is_told(world: World) -> None:
    writer, told = world.segment(world.one, b"a"), list[StorageError]()
    world.one.store.when_ended(told.append)
    world.do(world.other.store.end_session(world.one.store.session))
    assert isinstance(world.append(writer, b"b")[0], Fenced)
    assert len(told) == 1 and isinstance(told[0], Fenced)
    assert isinstance(world.one.store.trouble, Fenced)
    assert world.one.store.is_failing
    with pytest.raises(StorageError):
        world.do(world.one.store.create(MESSAGES))
    world.do(world.one.store.close())
    assert world.record(world.one).state is SessionState.SETTLED
    assert world.entries(world.other, writer.segment) == [b"a"]
    with pytest.raises(ValueError, match="own session"):
        world.do(world.other.store.end_session(world.other.store.session))


def test_a_process_that_was_ended_settles_nothing(world: World) -> None:
    writer, told = world.segment(world.one, b"a"), list[StorageError]()
    world.one.store.when_ended(told.append)
    before = world.record(world.one)
    fenced = replace(before, state=SessionState.FENCED)
    world.do(world.metadata.put(key_of(1), fenced.encode()))
    with pytest.raises(Fenced):
        world.do(world.one.store.settle())
    assert world.record(world.one) == fenced
    assert not told
    world.do(writer.seal())
    world.clock.advance(11)  # it wants to write sealed segments to packs
    world.settle()
    assert len(told) == 1 and isinstance(told[0], Fenced)
    world.do(world.other.store.end_session(1))
    assert world.entries(world.other, writer.segment) == [b"a"]


def test_a_process_that_was_ended_tries_to_write_packs_once(world: World) -> None:
    writer = world.segment(world.one)
    fenced = replace(world.record(world.one), state=SessionState.FENCED)
    world.do(world.metadata.put(key_of(1), fenced.encode()))
    before = len(world.objects.log)
    writer.append([b"x" * SMALL.settle_bytes], [1], lambda error: None)
    for _ in range(500):
        if not world.clock.step():
            world.step()
    uploads = [line for line in world.objects.log[before:] if line.startswith("upload sessions/")]
    assert len(uploads) == 2, "a pack and a manifest"


def test_a_process_that_was_ended_waits_for_the_packs_that_it_writes(world: World) -> None:
    growing, sealed = world.segment(world.one, b"a"), world.segment(world.one, b"b")
    world.do(sealed.seal())
    world.clock.advance(SMALL.sealed_seconds)
    world.clock.pump()
    background = world.one.threads[2]
    assert len(background), "it writes a pack"

    def others() -> bool:
        threads = (*world.one.threads[:2], *world.other.threads)
        return any(thread.step() for thread in threads) or world.clock.advance_to_timer()

    run(world.other.store.end_session(1), world.clock, others)
    outcomes: list[BaseException | None] = []
    growing.append([b"c"], [1], outcomes.append)
    while not outcomes:
        assert world.clock.step() or others()
    assert isinstance(outcomes[0], Fenced)
    closing = start(world.one.store.close())
    world.clock.pump()
    assert len(background) and not closing.done()
    world.settle()
    assert closing.result() is None and not len(background)


def test_only_so_much_waits_to_be_settled(world: World) -> None:
    writer = world.segment(world.one)
    world.fail("upload")
    payload, outcomes = b"x" * 90, list[BaseException | None]()
    for _ in range(30):
        writer.append([payload], [1], outcomes.append)
        for _ in range(200):
            if not world.clock.step():
                world.step()
    refused = [error for error in outcomes if error is not None]
    assert refused and all(isinstance(error, Unavailable) for error in refused)
    assert outcomes == [None] * outcomes.count(None) + refused
    assert outcomes.count(None) * 90 <= SMALL.most_bytes + 2 * 130
    assert world.one.store.is_failing and world.one.store.trouble is not None
    with pytest.raises(Unavailable):
        world.do(world.one.store.create(MESSAGES))
    assert [finding for finding in world.one.findings if "packs" in finding.text]
    world.objects.fault = None
    world.clock.advance(2)
    world.settle()
    assert world.one.store.trouble is None
    assert world.append(world.segment(world.one), b"again") == [None]
    assert isinstance(world.append(writer, b"behind")[0], Unavailable), "for good"
    end = world.do(world.one.store.recover(writer.segment))
    assert world.entries(world.one, writer.segment) == [payload] * end.entries


def test_the_log_pauses_while_packs_are_written(world: World) -> None:
    writer, outcomes = world.segment(world.one), list[BaseException | None]()
    uploads, background = world.one.threads[:2], world.one.threads[2]
    for _ in range(40):
        writer.append([b"x" * 90], [1], outcomes.append)
        while world.clock.step() or any(thread.step() for thread in uploads):
            pass
        world.clock.advance(0.2)
    assert background.step()  # it had something to do all the time
    slots = [name for name in world.objects.names() if name.startswith("wal/")]
    assert len(slots) <= SMALL.most_slots + 2, "two uploads were running"
    world.settle()
    assert outcomes == [None] * 40
    assert world.entries(world.one, writer.segment) == [b"x" * 90] * 40


def test_a_pack_that_was_cut_does_not_count(world: World) -> None:
    writer = world.segment(world.one, b"a", b"b")
    size = world.objects.size
    world.objects.size = lambda name: size(name) - 1  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="it is written again"):
        world.do(world.one.store.settle())
    world.objects.size = size  # type: ignore[method-assign]
    world.end(world.one)
    assert world.entries(world.other, writer.segment) == [b"a", b"b"]


def test_a_change_that_seemed_to_fail_loses_nothing(world: World) -> None:
    growing, sealed = world.segment(world.one, b"a"), world.segment(world.one, b"b")
    world.do(sealed.seal())
    world.metadata.fates.append(Fate.LOST)
    with pytest.raises(Unavailable):
        world.do(world.one.store.settle())
    assert world.record(world.one).trim > 0, "it took place"
    world.clock.advance(11)  # sealed segments alone are written to packs
    world.settle()
    world.end(world.one)
    assert world.entries(world.other, growing.segment) == [b"a"]
    assert world.entries(world.other, sealed.segment) == [b"b"]


def test_after_a_defect_packs_are_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upload(name: str, size: int, read: object) -> None:
        raise ValueError("a defect")

    first = world.segment(world.one, b"a")
    world.do(first.seal())
    with monkeypatch.context() as broken:
        broken.setattr(world.objects, "upload", upload)
        with pytest.raises(ValueError, match="a defect"):
            world.clock.advance(SMALL.sealed_seconds)
            world.settle()
    world.do(world.segment(world.one, b"b").seal())
    world.clock.advance(SMALL.sealed_seconds)
    world.settle()
    assert world.do(world.other.store.recover(first.segment)).entries == 1


def test_damage_in_the_log_stays_with_its_entries(world: World) -> None:
    damaged, intact = world.segment(world.one, b"first"), world.segment(world.one, b"other")
    world.append(damaged, b"second")
    world.append(damaged, b"third")
    name = slot_with(world, b"second")
    world.objects.put(name, world.objects.content(name).replace(b"second", b"SECOND"))
    world.end(world.one)
    assert world.do(world.other.store.recover(damaged.segment)).entries == 3
    reader = world.do(world.other.store.reader(damaged.segment))
    assert world.do(reader.read(0, 9, 99)).payloads == [b"first"]
    with pytest.raises(Corrupt):
        world.do(reader.read(1, 9, 99))
    assert world.do(reader.read(2, 9, 99)).payloads == [b"third"]
    assert world.entries(world.other, intact.segment) == [b"other"]


def test_a_session_whose_slot_is_missing_is_not_settled(world: World) -> None:
    writer = world.segment(world.one, b"first", b"second")
    name = slot_with(world, b"first")
    content = world.objects.content(name)
    world.one.kill()
    # Lost after the end of the session was found.
    end = int(slot_with(world, b"second").rpartition("/")[2], 16) + 1
    fenced = replace(world.record(world.one), state=SessionState.FENCED, end=end)
    world.do(world.metadata.put(key_of(1), fenced.encode()))
    world.objects.delete(name)
    with pytest.raises(Unavailable, match=f"object {name} is missing, slot ") as missing:
        world.do(world.other.store.end_session(1))
    world.objects.put(name, b"rot" + content)
    with pytest.raises(Corrupt, match=f"^{name} at byte ") as damaged:
        world.do(world.other.store.recover(writer.segment))
    for caught in (missing, damaged):
        assert "Put the object back from the versions of the bucket" in str(caught.value)
        assert "acknowledged" in str(caught.value)
    world.objects.put(name, content)
    assert world.do(world.other.store.recover(writer.segment)).entries == 2


def test_a_missing_object_is_not_a_missing_segment(world: World) -> None:
    segment = world.segment(world.one, b"a").segment
    world.do(world.one.store.close())
    pack, manifest = world.objects.names()
    content = world.objects.content(pack)
    world.objects.delete(pack)
    with pytest.raises(Unavailable, match="is incomplete"):
        world.entries(world.other, segment)
    world.objects.put(pack, content)
    world.objects.delete(manifest)
    third = world.start()
    with pytest.raises(Unavailable):
        world.entries(third, segment)
    world.objects.put(manifest, b"x" * 50)
    with pytest.raises(Corrupt):
        world.entries(third, segment)


def test_a_segment_that_is_used_again_is_not_set_aside_any_more(world: World) -> None:
    writer = world.segment(world.one, b"a")
    third = world.start()
    world.end(world.one)
    assert world.do(world.other.store.set_aside([writer.segment], "a test"))
    assert world.orphans(third) == []
    assert world.entries(third, writer.segment) == [b"a"]
    assert [finding.segment for finding in third.findings] == [writer.segment]
    assert list(world.do(world.other.store.delete_set_aside(EVER))) == []
    assert world.entries(world.other, writer.segment) == [b"a"]
    assert world.other.store.closed() == [writer.segment]


def test_what_was_set_aside_is_deleted_by_any_process(world: World) -> None:
    dead, own = world.segment(world.one, b"a"), world.segment(world.other, b"b")
    world.end(world.one)
    aside = [dead.segment, own.segment]
    world.do(world.other.store.set_aside(aside, "a test"))
    third = world.start()
    assert world.do(third.store.delete_set_aside(EVER)) == [dead.segment]
    assert world.do(world.other.store.delete_set_aside(EVER)) == [own.segment]
    for segment in aside:
        with pytest.raises(NoSegment):
            world.do(world.other.store.recover(segment))


def test_copies_of_damaged_entries_are_kept_for_a_time(world: World) -> None:
    entry = DamagedEntries(1, 0, 2, "rot", b"the bytes", "/topics/x")
    world.do(world.one.store.keep_damaged([entry, entry], "a test"))
    names = world.objects.names()
    assert len(names) == 2
    line, data = world.objects.content(names[0]).split(b"\n")
    assert b'"why": "rot"' in line and data == b"the bytes"
    world.do(world.other.store.delete_set_aside(world.clock.now_ms()))
    assert world.objects.names() == names
    world.do(world.other.store.delete_set_aside(world.clock.now_ms() + 1))
    assert world.objects.names() == []


def test_processes_that_start_at_the_same_time_have_different_sessions(world: World) -> None:
    third, fourth = (Process(world, SMALL, "") for _ in range(2))
    world.processes += [third, fourth]
    opening = [start(process.opening) for process in (third, fourth)]
    world.settle()
    assert sorted(each.result().session for each in opening) == [3, 4]


def test_a_number_that_was_used_is_not_used_again(world: World) -> None:
    world.do(world.one.store.close())
    world.do(world.other.store.close())
    assert world.record(world.other).state is SessionState.GONE
    assert world.start().store.session == 3


def test_a_start_forgets_sessions_without_segments(world: World) -> None:
    segment = world.segment(world.one, b"a").segment
    world.do(world.one.store.close())
    world.do(world.other.store.close())
    third = world.start()
    world.settle()
    assert world.do(third.metadata.list("/sessions/")) == [key_of(1), key_of(3)]
    world.do(third.store.delete(segment))
    # A crash had left it behind, or an upload that took place late.
    world.objects.put("sessions/000001/0000000001000001", b"left behind")
    fourth = world.start()
    world.settle()
    assert world.do(fourth.metadata.list("/sessions/")) == [key_of(3), key_of(4)]
    assert world.objects.names() == []
    with pytest.raises(NoSegment):
        world.do(fourth.store.recover(segment))
    world.do(fourth.store.delete(segment))
    world.do(fourth.store.end_session(1))


def test_the_record_of_the_last_session_stays(world: World) -> None:
    third = world.start()
    world.do(third.store.close())
    assert world.record(third).state is SessionState.GONE
    world.do(world.other.store.forget_gone())
    assert world.record(third).state is SessionState.GONE
    assert world.start().store.session == 4


def test_a_start_does_without_forgetting_if_that_fails(world: World) -> None:
    world.do(world.one.store.close())
    world.fail("list", "sessions/000001/")
    third = world.start()
    world.settle()
    assert ["cannot be deleted" in finding.text for finding in third.findings] == [True]
    assert world.append(world.segment(third), b"a") == [None]


@pytest.mark.parametrize("end", ["kill", "close"])
def test_ids_are_beyond_those_of_other_processes(world: World, end: str) -> None:
    low = world.segment(world.one).segment
    for _ in range(5):
        high = world.segment(world.other).segment
    made = world.do(world.one.store.create(MESSAGES, beyond=high))
    assert low < high < made.segment
    assert world.segment(world.one).segment > made.segment
    assert world.do(world.one.store.origin(made.segment)) is None
    ends: dict[str, Callable[[], None]] = {
        "kill": lambda: world.end(world.one),
        "close": lambda: world.do(world.one.store.close()),
    }
    ends[end]()
    assert world.do(world.other.store.recover(made.segment)) == (0, 0, 0)
    assert world.do(world.other.store.origin(made.segment)) is None
    assert world.entries(world.other, made.segment) == []
