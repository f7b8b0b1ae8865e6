"""The delay index: nothing is early or lost, through restarts, crashes, damage, a full disk."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from effort import examples
from fakes.delay_worlds import RUN, DelayWorld
from magnetar_storage.delays import delay_index
from magnetar_storage.delays.delay_block import MAX_TIME
from magnetar_storage.errors import DiskFull, NoSegment


def test_delays_end_in_the_order_of_their_times() -> None:
    delays = DelayWorld()
    delays.append(30, None, 10, 20)
    assert delays.waiting == {0, 2, 3}
    assert delays.index.next_at == 10
    assert delays.release(9) == []
    assert delays.release(20) == [2, 3]
    assert delays.waiting == {0}
    assert delays.index.next_at == 30
    assert delays.release(MAX_TIME) == [0]
    assert delays.index.next_at is None
    assert not delays.index.waiting


def test_many_delays_become_runs_and_memory_keeps_few() -> None:
    delays = DelayWorld()
    for first in range(0, 40, 4):
        delays.append(*range(1000 - first, 996 - first, -1))
    delays.pump()
    assert len(delays.segments) >= 3
    assert len(delays.index._recent) <= RUN
    assert delays.waiting == delays.expected
    assert delays.release(980) == [o for o, due in sorted(delays.delays.items()) if due <= 980]
    assert delays.index.next_at == 981


def test_a_run_that_is_used_up_is_deleted() -> None:
    delays = DelayWorld()
    delays.append(*range(1, 20))
    delays.pump()
    (segment,) = delays.segments
    delays.release(18)
    assert delays.segments == (segment,)
    delays.release(19)
    assert delays.segments == ()
    assert segment not in delays.stored()


def test_runs_that_are_nearly_used_up_become_one() -> None:
    delays = DelayWorld()
    for _ in range(6):
        delays.append(*[1] * RUN, 100)
        delays.pump()
    assert len(delays.segments) == 6
    delays.release(50)
    assert len(delays.segments) == 1
    assert delays.waiting == delays.expected
    delays.reopen()
    assert delays.waiting == delays.expected
    assert len(delays.release(100)) == 6


def test_a_run_that_cannot_be_written_now_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delays = DelayWorld()
    for _ in range(6):
        delays.append(*[1] * RUN, 100)
        delays.pump()
    before = delays.segments

    async def fail(*asked: object) -> None:
        raise DiskFull("no room")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(delay_index, "write_run", fail)
        for until_ms in (50, 60):
            with pytest.raises(DiskFull):
                delays.release(until_ms)
    assert delays.segments == before and delays.log.failed is None
    assert not delays.log.record.trash and delays.stored() == delays.log.record.listed
    assert delays.waiting == {offset for offset, due in delays.delays.items() if due == 100}
    delays.release(70)
    assert len(delays.segments) == 1
    delays.reopen()
    assert len(delays.release(100)) == 6


def test_a_restart_reads_no_times() -> None:
    delays = DelayWorld()
    delays.append(*range(100, 100 + 3 * RUN))
    delays.append(7)
    delays.close()
    reads = delays.world.store.reads
    delays.reopen()
    assert delays.waiting == delays.expected
    assert delays.index.next_at == 7
    assert delays.world.store.reads - reads <= 2 * len(delays.segments) + 2
    assert not delays.index.unsure


def test_after_a_crash_only_the_last_entries_are_unsure() -> None:
    delays = DelayWorld()
    delays.append(50, 60)
    delays.settle()
    delays.append(None, 70)
    delays.reopen()
    assert delays.waiting == {0, 1}
    assert list(delays.index.unsure) == [2, 3]
    delays.ask_the_unsure()
    assert delays.waiting == {0, 1, 3}


def test_uncertain_offsets_stay_so_until_their_entries_are_read() -> None:
    delays = DelayWorld()
    delays.append(50)
    delays.settle()
    delays.append(60)
    delays.reopen()
    assert list(delays.index.unsure) == [1]
    delays.append(70)
    delays.close()
    delays.reopen()
    assert list(delays.index.unsure) == [1, 2]
    delays.ask_the_unsure()
    delays.index.looked_at(1, 3)
    delays.close()
    delays.reopen()
    assert not delays.index.unsure


def test_a_topic_without_delays_writes_nothing_about_them() -> None:
    delays = DelayWorld()
    delays.append(None, None)
    delays.close()
    delays.reopen()
    assert delays.log.record.cursor_segment is None
    assert list(delays.index.unsure) == [0, 1]


def test_while_the_index_is_suspended_everything_new_is_unsure() -> None:
    delays = DelayWorld()
    delays.append(5)
    delays.index.suspend()
    delays.append(None)
    assert 1 in delays.index.unsure
    delays.append(None)
    delays.index.resume()
    assert list(delays.index.unsure) == [1, 2]
    delays.append(None)
    delays.close()
    delays.reopen()
    assert list(delays.index.unsure) == [1, 2, 3]


def test_what_comes_when_the_index_is_closed_is_unsure() -> None:
    delays = DelayWorld()
    delays.append(5)
    delays.world.do(delays.index.close())
    delays.append(7)
    delays.world.do(delays.cursors.close())
    delays.world.do(delays.log.close())
    delays.reopen()
    assert delays.waiting == {0}
    assert list(delays.index.unsure) == [1]


def test_with_two_damaged_runs_the_entries_of_both_are_asked() -> None:
    delays = DelayWorld()
    for first in (100, 300, 500):
        delays.append(*range(first, first + 20))
        delays.pump()
    for segment in delays.segments[:2]:
        delays.damage(segment)
    due = delays.release(110)
    assert len(delays.reported) == 1
    assert set(range(40)) <= set(delays.index.unsure)
    late = [offset for offset in due if delays.delays[offset] > 110]
    delays.add(late)
    delays.released.difference_update(late)
    assert delays.release(MAX_TIME) == list(range(11, 60))
    assert len(delays.reported) == 2
    assert delays.segments == ()


def test_entries_that_were_never_durable_are_forgotten() -> None:
    delays = DelayWorld()
    delays.append(5)
    delays.index.add([1], [100])
    delays.settle()
    delays.reopen()
    assert delays.waiting == {0}
    delays.append(None)
    delays.reopen()
    assert delays.waiting == {0}


def test_neither_are_those_of_a_run() -> None:
    delays = DelayWorld()
    delays.append(*range(100, 110))
    delays.index.add(range(10, 20), [200] * 10)
    delays.pump()
    delays.reopen()
    assert delays.waiting == delays.expected
    delays.append(*[None] * 30)
    delays.reopen()
    assert delays.waiting == delays.expected
    assert delays.release(MAX_TIME) == list(range(10))


def test_trimmed_entries_are_forgotten() -> None:
    delays = DelayWorld()
    delays.append(*range(100, 120))
    delays.append(200)
    delays.pump()
    delays.close()
    delays.reopen()
    delays.append(300)
    delays.world.do(delays.log.trim(21))
    delays.world.do(delays.index.trim())
    assert delays.segments == ()
    assert delays.waiting == {21}
    assert delays.index.next_at == 300
    delays.settle()
    delays.reopen()
    assert delays.waiting == {21}


def test_a_damaged_run_is_forgotten_and_its_entries_are_asked() -> None:
    delays = DelayWorld()
    delays.append(*range(100, 120))
    delays.append(*range(300, 320))
    delays.pump()
    first, second = delays.segments
    delays.damage(first)
    due = delays.release(150)
    assert [type(error) for error in delays.reported] == [NoSegment]
    assert delays.segments == (second,)
    assert set(due) <= set(delays.index.unsure)
    assert delays.waiting.isdisjoint(due)
    delays.add([offset for offset in due if delays.delays[offset] > 150])
    assert {o for o, at in delays.delays.items() if at > 150} == delays.waiting


def test_a_run_that_is_missing_at_the_start_makes_all_entries_unsure() -> None:
    delays = DelayWorld()
    delays.append(*range(100, 120))
    delays.pump()
    delays.close()
    delays.damage(delays.segments[0])
    delays.reopen()
    assert [type(error) for error in delays.reported] == [NoSegment]
    assert delays.segments == ()
    assert delays.index.unsure == range(20)
    delays.ask_the_unsure()
    assert delays.waiting == delays.expected


def test_offsets_that_damage_makes_uncertain_during_a_read_stay_so() -> None:
    delays = DelayWorld()
    delays.append(*range(100, 120))
    delays.settle()
    delays.append(300)
    delays.reopen()
    looking = delays.index.unsure
    assert looking == range(20, 21)
    delays.damage(delays.segments[0])
    lost = delays.release(100)
    assert lost[0] < 20
    delays.index.looked_at(looking.start, looking.stop)
    assert set(lost) <= set(delays.index.unsure), "their entries have not been asked yet"


@pytest.mark.parametrize("live", [True, False])
def test_a_crash_after_a_run_was_lost_forgets_nothing(live: bool) -> None:
    delays = DelayWorld()
    delays.append(*range(100, 120))
    delays.pump()
    delays.append(None)
    delays.close()
    if live:
        delays.reopen()
    delays.damage(delays.segments[0])
    if live:
        delays.release(100)
        delays.released.clear()
    else:
        delays.reopen()
    delays.ask_the_unsure()
    delays.index.looked_at(0, delays.log.end)
    delays.reopen()
    assert delays.segments == ()
    delays.ask_the_unsure()
    assert delays.waiting == delays.expected


def test_a_run_that_cannot_be_written_ends_the_log_and_nothing_is_lost() -> None:
    delays = DelayWorld()
    delays.append(*range(100, 105))
    delays.settle()
    delays.world.store.create_failure = DiskFull("no room")
    delays.append(*range(200, 205))
    delays.pump()
    assert isinstance(delays.log.failed, DiskFull)
    delays.world.store.create_failure = None
    delays.reopen()
    delays.ask_the_unsure()
    assert delays.waiting == delays.expected


@pytest.mark.parametrize("steps", range(80))
def test_a_crash_while_a_run_is_made_loses_nothing(steps: int) -> None:
    delays = DelayWorld()
    delays.append(*range(100, 106))
    delays.settle()
    delays.append(*range(200, 206))
    for _ in range(steps):
        delays.world.clock.step()
    delays.reopen()
    delays.ask_the_unsure()
    assert delays.waiting == delays.expected
    assert delays.release(150) == [0, 1, 2, 3, 4, 5]
    assert delays.release(MAX_TIME) == [6, 7, 8, 9, 10, 11]


class IndexMachine(RuleBasedStateMachine):
    """Time never goes back; whatever happens, an entry is due when it is, and once in a life."""

    def __init__(self) -> None:
        super().__init__()
        self.delays = DelayWorld()
        self.now = 1000

    @rule(delays=st.lists(st.none() | st.integers(-5, 300), min_size=1, max_size=12))
    def append(self, delays: list[int | None]) -> None:
        self.delays.append(*(None if one is None else max(self.now + one, 0) for one in delays))

    @rule(steps=st.integers(1, 30))
    def work(self, steps: int) -> None:
        for _ in range(steps):
            self.delays.world.clock.step()

    @rule(ms=st.integers(0, 60))
    def release(self, ms: int) -> None:
        self.now += ms
        due = {o for o in self.delays.expected if self.delays.delays[o] <= self.now}
        assert set(self.delays.release(self.now)) == due
        next_at = self.delays.index.next_at
        assert next_at is None or next_at > self.now

    @rule()
    def settle(self) -> None:
        self.delays.settle()

    @rule(keep=st.integers(0, 40))
    def trim(self, keep: int) -> None:
        self.delays.log.rollover.roll_if_due()
        self.delays.pump()
        self.delays.world.do(self.delays.log.trim(self.delays.log.end - keep))
        self.delays.world.do(self.delays.index.trim())

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.delays.close()
        released, self.delays.released = self.delays.released, set()
        self.delays.reopen()
        again = self.delays.waiting & released
        assert all(self.delays.delays[o] <= self.now for o in again), "due in an earlier life"
        self.delays.released = released - again
        if clean:
            assert not self.delays.index.unsure or not self.delays.delays
        self.delays.ask_the_unsure()
        self.delays.released = released - (self.delays.waiting & released)
        self.delays.index.looked_at(0, self.delays.log.end)

    @precondition(lambda self: self.delays.segments)
    @rule(which=st.integers(0, 100))
    def lose_a_run(self, which: int) -> None:
        self.delays.pump()
        if self.delays.segments:
            self.delays.damage(self.delays.segments[which % len(self.delays.segments)])
            self.restart(clean=False)

    @invariant()
    def what_waits_is_what_is_not_due(self) -> None:
        assert self.delays.waiting == self.delays.expected
        next_at = self.delays.index.next_at
        times = [self.delays.delays[offset] for offset in self.delays.expected]
        assert (next_at is None) == (not times) or next_at is not None
        if times:
            assert next_at is not None and next_at <= min(times)


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow],
)
