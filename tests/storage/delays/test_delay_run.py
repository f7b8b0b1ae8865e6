"""Runs of delays: written once, loaded by their header, read block by block."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.logs import LogWorld
from fakes.origins import MESSAGES
from magnetar_storage.delays.delay_block import BLOCK, MAX_TIME, Block, block_of, sorted_block
from magnetar_storage.delays.delay_run import DelayRun, load_run, write_run
from magnetar_storage.errors import Corrupt, NoSegment

Delay = tuple[int, int]
"""The time and the offset of a delayed entry."""
delays = st.lists(
    st.tuples(st.integers(0, MAX_TIME) | st.integers(0, 5), st.integers(0, 2**40)),
    min_size=1,
    max_size=80,
    unique_by=lambda delay: delay[1],
)


def parts_of(some: Sequence[Delay], size: int) -> list[Block]:
    """Return sorted blocks of at most `size` delays."""
    cut = [some[at : at + size] for at in range(0, len(some), size)]
    return [sorted_block([at for at, _ in part], [o for _, o in part]) for part in cut]


def even(n: int) -> list[Block]:
    """Return a block in which each offset is delayed until its own number."""
    return [block_of(range(n), range(n))]


class Runs(LogWorld):
    """Runs in one store."""

    def written(self, parts: Sequence[Block]) -> DelayRun:
        writer = self.do(self.store.create(MESSAGES))
        return self.do(write_run(writer, self.clock, parts))

    def rest(self, run: DelayRun) -> list[Delay]:
        blocks = self.do(run.rest(self.store))
        return [delay for block in blocks for delay in zip(*block, strict=True)]

    def segment(self, *payloads: bytes) -> int:
        """Create a segment that is not a run."""
        writer = self.do(self.store.create(MESSAGES))
        if payloads:
            writer.append(list(payloads), [0] * len(payloads), lambda error: None)
        self.clock.pump()
        return writer.segment

    def take(self, run: DelayRun, until_ms: int) -> list[int]:
        taken: list[int] = []
        while some := self.do(run.take(self.store, until_ms)):
            taken += some
        return taken


@given(delays, st.integers(1, 100))
def test_a_run_comes_back(some: list[Delay], size: int) -> None:
    runs = Runs()
    written = runs.written(parts_of(some, size))
    loaded = runs.do(load_run(runs.store, written.segment))
    assert loaded is not None
    for run in (written, loaded.run):
        assert run.left == len(some)
        assert run.next_at == min(some)[0]
        assert run.stop == max(offset for _, offset in some) + 1
        rest = runs.rest(run)
        assert sorted(rest) == sorted(some)
        assert [at for at, _ in rest] == sorted(at for at, _ in some)
        assert runs.take(run, MAX_TIME) == [offset for _, offset in rest]
        assert (run.left, run.next_at) == (0, None)
    offsets = {at + bit for at, word in loaded.words for bit in range(64) if word >> bit & 1}
    assert offsets == {offset for _, offset in some}


def test_of_many_blocks_only_the_first_is_read() -> None:
    runs = Runs()
    run = runs.written(even(3 * BLOCK))
    reads = runs.store.reads
    assert len(runs.do(run.take(runs.store, BLOCK // 2))) == BLOCK // 2 + 1
    assert runs.do(run.take(runs.store, BLOCK // 2)) == ()
    assert runs.store.reads == reads + 1
    assert len(runs.take(run, 2 * BLOCK)) == 2 * BLOCK - BLOCK // 2
    assert len(runs.rest(run)) == run.left == BLOCK - 1


@pytest.mark.parametrize("kept", range(4))
def test_a_run_whose_writing_was_cut_short_is_none(kept: int) -> None:
    runs = Runs()
    whole = runs.written(even(3 * BLOCK))
    reader = runs.do(runs.store.reader(whole.segment))
    payloads = runs.do(reader.read(0, 9, 1 << 20)).payloads
    assert len(payloads) == 4
    assert runs.do(load_run(runs.store, runs.segment(*payloads[:kept]))) is None


@pytest.mark.parametrize(
    "header", [b"", b"abc", bytes(16), b"\x02" + bytes(15), b"\x01" + bytes(15)]
)
def test_what_is_no_run_is_refused(header: bytes) -> None:
    runs = Runs()
    with pytest.raises(Corrupt):
        runs.do(load_run(runs.store, runs.segment(header)))


def test_a_run_that_is_not_there_is_missing() -> None:
    runs = Runs()
    with pytest.raises(NoSegment):
        runs.do(load_run(runs.store, 4711))


def test_a_block_that_is_none_is_refused() -> None:
    runs = Runs()
    whole = runs.written([block_of([1], [1])])
    reader = runs.do(runs.store.reader(whole.segment))
    header = runs.do(reader.read(0, 1, 1 << 20)).payloads[0]
    loaded = runs.do(load_run(runs.store, runs.segment(header, b"no block")))
    assert loaded is not None
    with pytest.raises(Corrupt):
        runs.do(loaded.run.take(runs.store, 1))
