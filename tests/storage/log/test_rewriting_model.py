"""Rewriting, trimming, cursors and restarts in any order, against a model."""

from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from effort import examples
from fakes.logs import numbered
from fakes.rewritten import EVER, RewrittenLog
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.log import rewritable, rewriting
from magnetar_storage.log.log import Log


class RewrittenLogs(RuleBasedStateMachine):
    """Everything at once.  The model: what was appended, and where; cursors are believed."""

    @initialize(
        small=st.sampled_from([0, 40, rewritable.SMALL_BYTES]),
        group=st.sampled_from([0, 40, rewritable.GROUP_BYTES]),
        looked_at=st.sampled_from([2, rewriting.LOOKED_AT]),
        cache=st.sampled_from([0, 60]),
    )
    def begin(self, small: int, group: int, looked_at: int, cache: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(rewritable, "SMALL_BYTES", small)
        self.patch.setattr(rewritable, "GROUP_BYTES", group)
        self.patch.setattr(rewriting, "LOOKED_AT", looked_at)
        self.patch.setattr(rewriting, "NEEDED_OF_WHOLE", 2)
        self.world = RewrittenLog(cache_bytes=cache)
        self.world.cursors = {"a": Cursor(-1)}
        self.readers = {"r": Cursor(-1)}
        self.counts: list[int] = []
        self.positions: list[tuple[int, int]] = []
        for first in range(3):
            for last in range(4):
                self.append([first, 1, last] * 2)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    @rule(counts=st.lists(st.integers(0, 4), min_size=1, max_size=25))
    def append(self, counts: list[int]) -> None:
        first = len(self.counts)
        self.counts += counts
        payloads = numbered(first, len(self.counts))
        if self.world.log.writer is None:
            self.world.do(self.world.log.rollover.start_writing())
        self.world.append(self.world.log, *payloads, counts=counts)
        for offset in range(first, len(self.counts)):
            self.positions.append(self.world.log.position(offset))

    @rule(name=st.sampled_from("abc"), data=st.data())
    def ack(self, name: str, data: st.DataObject) -> None:
        cursor = self.world.cursors.get(name)
        if cursor is None or not self.counts:
            return
        first = data.draw(st.integers(0, len(self.counts) - 1))
        cursor.ack(range(first, min(first + data.draw(st.integers(1, 30)), len(self.counts))))

    @rule(keep=st.sets(st.integers(0, 80), min_size=1, max_size=12), turns=st.integers(1, 3))
    def ack_most_and_reclaim(self, keep: set[int], turns: int) -> None:
        """More and more of them, as consumers do."""
        for turn in range(turns):
            kept = sorted(keep)[turn * 3 :]
            for cursor in self.world.cursors.values():
                cursor.ack([o for o in range(len(self.counts)) if o not in kept])
            self.reclaim(EVER, EVER)

    @rule(name=st.sampled_from("abc"), part=st.floats(0, 1))
    def subscribe(self, name: str, part: float) -> None:
        """Or seek."""
        cursor = self.world.cursors.setdefault(name, Cursor(-1))
        cursor.reset(int(len(self.counts) * part) - 1)
        cursor.skip_reclaimed(self.world.log.first_offset, self.world.log.holes)

    @rule(name=st.sampled_from("abc"))
    def unsubscribe(self, name: str) -> None:
        self.world.cursors.pop(name, None)

    @rule(part=st.floats(0, 1))
    def read_from(self, part: float) -> None:
        self.readers["r"].reset(int(len(self.counts) * part) - 1)
        self.readers["r"].skip_reclaimed(self.world.log.first_offset, self.world.log.holes)

    @rule(before=st.sampled_from([EVER, 30]), max_bytes=st.sampled_from([1, EVER]))
    def reclaim(self, before: int, max_bytes: int) -> None:
        log, holes = self.world.log, set(offsets_in(self.world.log))
        needed = set(self.world.needed)
        size = log.size
        log.on_reclaimed = self.skip_holes
        freed = self.world.reclaim(before, max_bytes)
        assert freed == size - log.size >= 0
        fresh = set(offsets_in(log)) - holes
        assert not fresh & needed
        assert all(offset < before for offset in fresh)

    def skip_holes(self) -> None:
        self.world.skip_holes()
        self.readers["r"].skip_reclaimed(self.world.log.first_offset, self.world.log.holes)

    @rule()
    def trim(self) -> None:
        marks = [cursor.mark_delete + 1 for cursor in self.world.cursors.values()]
        self.world.do(self.world.log.trim(min(marks, default=self.world.log.end)))

    @rule(cleanly=st.booleans())
    def reopen(self, cleanly: bool) -> None:
        if cleanly:
            self.world.do(self.world.log.close())
        holes = set(offsets_in(self.world.log))
        self.world.opened()
        self.skip_holes()
        assert set(offsets_in(self.world.log)) == holes

    @invariant()
    def what_is_needed_is_there(self) -> None:
        if not hasattr(self, "world"):
            return
        world, log = self.world, self.world.log
        there = world.there()
        holes = set(offsets_in(log))
        assert set(there) == set(range(log.first_offset, log.end)) - holes
        assert all(payload == b"%d" % offset for offset, payload in there.items())
        for cursor in (*world.cursors.values(), *self.readers.values()):
            offset = cursor.next_unacked(log.first_offset)
            assert offset >= log.end or offset in there
        assert not holes & {o for o in world.needed if o >= log.first_offset}
        for offset in there:
            assert log.position(offset) == self.positions[offset]
            assert log.offset_of(*self.positions[offset]) == offset
            assert log.seek(*self.positions[offset]) == offset
        world.stored()

    @invariant()
    def messages_are_counted(self) -> None:
        if not hasattr(self, "world"):
            return
        world, log = self.world, self.world.log
        before = list(accumulate(self.counts, initial=0))
        counted = [
            world.do(log.entries.messages_before(offset))
            for offset in range(log.first_offset, log.end + 1)
        ]
        assert counted == sorted(counted)
        there = set(world.there())
        for offset, messages in enumerate(counted, log.first_offset):
            if offset in there or offset - 1 in there:
                assert messages == before[offset]
        assert (log.end, log.messages_end) == (len(self.counts), before[-1])


def offsets_in(log: Log) -> Iterator[int]:
    for start, stop in log.holes:
        yield from range(start, stop)


RewrittenLogs.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=20)
TestRewrittenLogs = RewrittenLogs.TestCase
