"""The budget of all readers: bounded, in turn, and never stuck."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from effort import examples
from magnetar_storage.log.read_budget import READS_AT_ONCE, SMALLEST_READ, Holding, ReadBudget

LIMIT = 1 << 20
ENTRIES, SIZE = 1000, 128 << 10
OVERHEAD = 64


class Reader:
    """A reader that reads, and drops what it read, when a test calls for it."""

    def __init__(self, budget: ReadBudget) -> None:
        self.holding = Holding(budget, self._drop, OVERHEAD)
        self.room: tuple[int, int] | None = None
        self.drops = 0

    def _drop(self) -> None:
        self.drops += 1

    def _begin(self, entries: int, size: int) -> None:
        assert self.room is None
        self.room = entries, size

    def want(self) -> bool:
        self.holding.read(ENTRIES, SIZE, self._begin)
        return self.room is not None

    def look_ahead(self) -> bool:
        self.holding.read_ahead(ENTRIES, SIZE, self._begin)
        return self.room is not None

    def arrive(self, size: int) -> None:
        self.room = None
        self.holding.ended()
        self.holding.keep(size)
        self.holding.finished()


def test_what_arrived_longest_ago_is_dropped_first() -> None:
    budget = ReadBudget(LIMIT)
    readers = [Reader(budget) for _ in range(4)]
    for reader in readers:
        assert reader.want()
        reader.arrive(LIMIT // 4)
    assert (budget.held, [reader.drops for reader in readers]) == (LIMIT, [0, 0, 0, 0])
    late = Reader(budget)
    assert late.want()
    assert [reader.drops for reader in readers] == [1, 0, 0, 0]
    assert budget.dropped == LIMIT // 4
    assert budget.held <= LIMIT


def test_an_entry_larger_than_its_room_does_not_exceed_the_limit_for_long() -> None:
    budget = ReadBudget(LIMIT)
    early, late = Reader(budget), Reader(budget)
    early.holding.keep(LIMIT - SIZE)
    assert late.want() and late.room is not None
    late.arrive(2 * SIZE)
    assert (early.drops, late.drops) == (1, 0)
    assert budget.held == 2 * SIZE


def test_reads_are_smaller_the_more_readers_hold_something() -> None:
    budget = ReadBudget(LIMIT)
    rooms = []
    for _ in range(100):
        reader = Reader(budget)
        assert reader.want() and reader.room is not None
        entries, size = reader.room
        rooms.append(size)
        assert entries == max(1, ENTRIES * size // SIZE)
        reader.arrive(size)
    assert rooms[0] == SIZE and rooms[-1] == SMALLEST_READ
    assert rooms == sorted(rooms, reverse=True)


def test_readers_that_hold_little_do_not_make_reads_smaller() -> None:
    budget = ReadBudget(LIMIT)
    for _ in range(100):
        Reader(budget).holding.keep(1)
    reader = Reader(budget)
    assert reader.want() and reader.room == (
        ENTRIES * (LIMIT - 100) // 8 // SIZE,
        (LIMIT - 100) // 8,
    )


def test_reads_wait_in_turn_when_all_is_reserved() -> None:
    budget = ReadBudget(1)
    first, second, third, fourth = (Reader(budget) for _ in range(4))
    assert first.want(), "a read that exceeds the limit alone"
    assert not second.want() and not third.want()
    assert not fourth.look_ahead(), "who is not in need does not wait"
    assert budget.waiting == 2
    first.arrive(1)
    assert second.room is not None and third.room is None
    second.arrive(0)
    assert third.room is not None and budget.waiting == 0


def test_what_is_read_ahead_drops_only_what_is_older() -> None:
    budget = ReadBudget(LIMIT)
    one, other = Reader(budget), Reader(budget)
    one.holding.keep(LIMIT // 2)
    other.holding.keep(LIMIT // 2)
    assert not one.look_ahead(), "its own entries would be dropped for the next ones"
    assert (one.drops, other.drops) == (0, 0)
    assert other.look_ahead()
    assert (one.drops, other.drops) == (1, 0)


def test_reads_under_way_are_few() -> None:
    budget = ReadBudget(1 << 30)
    readers = [Reader(budget) for _ in range(READS_AT_ONCE + 2)]
    assert [reader.want() for reader in readers].count(True) == READS_AT_ONCE
    assert readers[0].room == (ENTRIES, SIZE)
    assert budget.waiting == 2
    readers[-2].holding.release()
    assert budget.waiting == 1
    readers[0].arrive(SIZE)
    assert (readers[-2].room, readers[-1].room) == (None, (ENTRIES, SIZE))


def test_what_is_kept_beside_reads_needs_free_room() -> None:
    budget = ReadBudget(100)
    reader, buffer = Reader(budget), Reader(budget)
    reader.holding.keep(50)
    assert buffer.holding.grow(50)
    assert not buffer.holding.grow(1)
    buffer.holding.shrink(20)
    assert (budget.held, buffer.holding.held) == (80, 30)
    buffer.holding.release()
    assert (budget.held, reader.drops, buffer.drops) == (50, 0, 1)


def test_a_reader_has_one_read_at_a_time_which_it_may_want_again() -> None:
    budget = ReadBudget(LIMIT)
    reader = Reader(budget)
    assert reader.want()
    reader.holding.release()
    assert (reader.holding.wanted, reader.holding.reading) == (False, True)
    reader.holding.read(ENTRIES, SIZE, lambda *_: pytest.fail("a second read"))
    reader.holding.read_ahead(ENTRIES, SIZE, lambda *_: pytest.fail("a second read"))
    assert reader.holding.wanted
    reader.arrive(SIZE)
    assert not reader.holding.reading
    assert reader.look_ahead()


class Sharing(RuleBasedStateMachine):
    """Many readers of a small budget, in any order of reads, arrivals, and giving up."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = ReadBudget(LIMIT)
        self.readers = [Reader(self.budget) for _ in range(READS_AT_ONCE + 8)]
        self.reading: deque[Reader] = deque()
        self.waiting: list[Reader] = []

    def _look(self) -> None:
        begun = [one for one in self.waiting if one.room is not None]
        assert begun == self.waiting[: len(begun)], "served in turn"
        self.waiting = self.waiting[len(begun) :]
        self.reading += begun

    READER = st.integers(0, READS_AT_ONCE + 7)

    @rule(number=READER)
    def want(self, number: int) -> None:
        reader = self.readers[number]
        if reader not in self.reading and reader not in self.waiting:
            (self.reading if reader.want() else self.waiting).append(reader)

    @rule(number=READER)
    def look_ahead(self, number: int) -> None:
        reader = self.readers[number]
        if reader not in self.reading and reader not in self.waiting and reader.look_ahead():
            self.reading.append(reader)

    @rule()
    def all_want(self) -> None:
        for number in range(len(self.readers)):
            self.want(number)

    @rule(share=st.integers(0, 4))
    def arrive(self, share: int) -> None:
        if self.reading:
            reader = self.reading.popleft()
            assert reader.room is not None
            reader.arrive(reader.room[1] * share // 4)
            self._look()

    @rule(number=READER)
    def give_up(self, number: int) -> None:
        reader = self.readers[number]
        reader.holding.release()
        if reader in self.waiting:
            self.waiting.remove(reader)

    @rule(number=READER, size=st.integers(1, SIZE))
    def grow(self, number: int, size: int) -> None:
        self.readers[number].holding.grow(size)

    @invariant()
    def bounded(self) -> None:
        holdings = [one.holding for one in self.readers]
        assert self.budget.held == sum(one.held + one.reserved for one in holdings)
        assert self.budget.held <= LIMIT
        assert len(self.reading) <= READS_AT_ONCE
        assert self.budget.waiting == len(self.waiting)
        assert not self.waiting or self.reading, "nothing would end the wait"

    def teardown(self) -> None:
        while self.reading:
            self.arrive(4)
        assert not self.waiting


def test_many_readers() -> None:
    run_state_machine_as_test(Sharing, settings=settings(max_examples=examples(100)))


def test_what_a_reader_holds_moves_to_another_budget() -> None:
    one, other = ReadBudget(LIMIT), ReadBudget(LIMIT)
    reader = Reader(one)
    assert reader.want()
    reader.holding.use(other)
    assert other.held == 0 and one.held, "a read that is under way ends in its budget"
    reader.arrive(SIZE)
    reader.holding.use(other)
    assert (one.held, other.held, reader.drops) == (0, SIZE, 0)
    assert reader.want()
    reader.arrive(2 * SIZE)
    assert (one.held, other.held) == (0, 2 * SIZE)
    reader.holding.release()
    assert (one.held, other.held) == (0, 0)
