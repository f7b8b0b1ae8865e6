"""The conditions for a nearly full disk, and the use of the reserve."""

import pytest

from fakes.small_disk import CAPACITY, SmallMachine
from magnetar_storage.errors import DiskFull, DiskLow
from magnetar_storage.space.free_limit import FreeLimit, reserve_bytes, resumed_at
from magnetar_storage.space.reserve import STORE_FILE, Reserve

GB = 1 << 30
LIMIT = CAPACITY // 10
RESERVE = CAPACITY // 40


def opened(limit: FreeLimit | None = None) -> SmallMachine:
    machine = SmallMachine(limit=limit)
    machine.open()
    machine.look()
    return machine


@pytest.mark.parametrize(
    ("size", "limit"), [(5 * GB, GB // 2), (20 * GB, GB), (40 * GB, GB), (1000 * GB, 20 * GB)]
)
def test_the_default_limit_depends_on_the_size_of_the_disk(size: int, limit: int) -> None:
    assert FreeLimit().of(size) == limit


def test_a_limit_is_a_number_of_bytes_or_a_share() -> None:
    assert FreeLimit(bytes=7).of(GB) == 7
    assert FreeLimit(percent=50).of(GB) == GB // 2
    assert str(FreeLimit()) == "auto"
    assert (str(FreeLimit(bytes=7)), str(FreeLimit(percent=2.5))) == ("7", "2.5%")


def test_reserves_are_small_and_none_is_taken_without_a_limit() -> None:
    assert reserve_bytes(1000 * GB, 20 * GB) == 32 << 20
    assert reserve_bytes(CAPACITY, LIMIT) == RESERVE
    assert reserve_bytes(1000 * GB, 0) == 0
    machine = opened(FreeLimit(bytes=0))
    machine.fill()
    machine.look()
    machine.space.ran_out()
    assert machine.space.refusal is None and not machine.holds_reserve


def test_below_the_limit_there_is_no_room_until_a_quarter_more_is_free() -> None:
    machine = opened()
    machine.fill(LIMIT)
    machine.look()
    machine.space.check()
    machine.fill(LIMIT - 1)
    machine.look()
    with pytest.raises(DiskLow, match=r"/data has 40 kB free, less than the 40 kB .*consume"):
        machine.space.check()
    for left, is_low in ((LIMIT, True), (resumed_at(LIMIT) - 1, True), (resumed_at(LIMIT), False)):
        machine.empty()
        machine.fill(left)
        machine.look()
        assert (machine.space.refusal is not None) is is_low, left
    assert [is_low for is_low, _ in machine.logged] == [True, False]


def test_state_and_figures_are_those_of_the_last_look() -> None:
    machine = opened()
    changes: list[bool] = []
    machine.space.when_changed(changes.append)
    for left in (20_000, 30_000, 10_000):
        machine.empty()
        machine.fill(left)
        machine.look()
        figures = machine.space.figures()
        assert figures is not None
        assert figures == (left, CAPACITY, LIMIT, RESERVE, True)
    assert changes == [True]
    assert len(machine.logged) == 1, "one line for the whole time"


def test_a_start_sets_the_reserve_aside_and_a_stop_keeps_it() -> None:
    machine = opened()
    assert machine.holds_reserve
    machine.close()
    assert machine.holds_reserve
    machine.open()
    assert machine.holds_reserve and machine.space.refusal is None


def test_a_reserve_that_another_part_has_given_back_is_missed_and_set_aside_again() -> None:
    """Recovery gives the reserve back as well."""
    machine = opened()
    assert Reserve(machine.disk, STORE_FILE).give()
    machine.fill(LIMIT)
    machine.look()
    assert machine.space.refusal is not None
    machine.empty()
    machine.look()
    assert machine.holds_reserve and machine.space.refusal is None


def test_a_write_that_finds_no_room_is_refused_from_then_on() -> None:
    """This holds even if the disk was not checked since."""
    machine = opened()
    segment = machine.create()
    machine.fill()
    machine.append(segment, [bytes(20_000)], [1])
    machine.pump()
    assert machine.truths[segment].confirmed == 0
    assert machine.space.refusal is not None


def test_what_frees_room_has_the_reserve() -> None:
    machine = opened()
    segments = [machine.create() for _ in range(3)]
    for segment in segments:
        machine.append(segment, [bytes(900)], [1])
    machine.pump()
    machine.fill()
    machine.look()
    for segment in segments:
        machine.seal(segment)
    for segment in segments:
        machine.delete(segment)
    machine.do(machine.store.checkpoint())
    machine.check()
    machine.empty()
    machine.look()
    assert machine.space.refusal is None and machine.holds_reserve
    machine.check_still_works()


def test_the_journal_goes_on_with_the_reserve() -> None:
    """All records in it free room: messages are refused."""
    machine = opened()
    machine.fill()
    machine.look()
    for number in range(1, 400):
        machine.do(machine.store.advance_beyond(number * 1000))
        machine.fill(min(machine.free, RESERVE))
    assert not machine.holds_reserve
    machine.empty()
    machine.look()
    assert machine.holds_reserve


def test_while_room_lacks_a_journal_takes_none_ahead() -> None:
    machine = opened()
    machine.fill(LIMIT - 1)
    machine.look()
    machine.do(machine.store.advance_beyond(1000))
    machine.do(machine.store.advance_beyond(2000))
    (journal,) = (name for name in machine.disk.names() if name.endswith(".wal"))
    assert len(machine.disk.content(journal)) < machine.limits.journal_file_bytes


def test_a_stop_sets_aside_what_there_is_room_for() -> None:
    machine = SmallMachine(10 * CAPACITY)
    machine.open()
    machine.fill(LIMIT)
    machine.look()
    assert machine.space.make_room()
    machine.empty()
    machine.fill(LIMIT)
    machine.close()
    assert machine.holds_reserve
    assert machine.free < LIMIT


def test_messages_do_not_use_up_the_reserve() -> None:
    machine = opened()
    segment = machine.create()
    machine.fill()
    assert not machine.space.make_room()
    assert machine.holds_reserve
    machine.append(segment, [bytes(900)], [1])
    machine.pump()
    assert machine.truths[segment].confirmed == 0


def test_much_that_is_written_is_followed_by_a_look() -> None:
    machine = opened()
    machine.fill(10)
    machine.space.written(LIMIT // 8)
    assert machine.space.refusal is None
    machine.space.written(1)
    machine.pump()
    assert machine.space.refusal is not None


def test_a_quota_that_the_disk_does_not_show_is_noticed() -> None:
    machine = opened()
    machine.disk.fault = lambda what, name: (
        DiskFull(f"no room to {what} {name}") if what in ("write", "allocate") else None
    )
    segment_refused = False
    try:
        machine.create()
    except DiskFull:
        segment_refused = True
    assert segment_refused
    with pytest.raises(DiskLow, match=r"no room to write .*quotas"):
        machine.space.check()
    machine.look()
    machine.look()
    assert machine.space.refusal is not None, "the reserve cannot be set aside"
    machine.disk.fault = None
    machine.look()
    machine.look()
    assert machine.space.refusal is None and machine.holds_reserve
    assert len(machine.logged) == 2


def test_messages_are_refused_while_a_journal_is_full_whatever_is_free() -> None:
    machine = opened()
    is_full, probes = True, []
    machine.space.add_journal(lambda: is_full, lambda: probes.append(machine.clock.uptime()))
    for _ in range(2):
        machine.look()
        assert machine.space.refusal is not None and probes
    is_full = False
    machine.look()
    assert machine.space.refusal is None


def test_while_room_lacks_no_journal_file_is_kept_to_be_reused() -> None:
    machine = opened()
    segment = machine.create()
    for _ in range(40):
        machine.append(segment, [bytes(100)], [1])
        machine.pump()
    machine.do(machine.store.checkpoint())
    assert [name for name in machine.disk.names() if name.endswith(".spare")]
    machine.fill(LIMIT - 1)
    machine.look()
    assert not [name for name in machine.disk.names() if name.endswith(".spare")]
    machine.check()


def test_a_stop_without_room_is_in_order_and_so_is_the_start() -> None:
    machine = opened()
    segment = machine.create()
    machine.append(segment, [b"kept"], [1])
    machine.pump()
    machine.fill()
    machine.look()
    machine.close()
    assert machine.disk.locks == set()
    machine.open()
    machine.check()
    assert not machine.store.findings
