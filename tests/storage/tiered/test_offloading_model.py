"""Any sequence of offloading, trimming, faults and restarts keeps every entry and every object,
also if the log's record is lost afterwards."""

from collections.abc import Awaitable
from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from effort import examples
from fakes.faulty_objects import seeded
from fakes.logs import KEY, numbered
from fakes.tiered import OTHER, PLACE, TieredWorld, copies_in
from magnetar_storage.errors import Unavailable
from magnetar_storage.rebuild.logs import rebuilt
from magnetar_storage.rebuild.objects import FoundObjects, candidates, examined


class Offloading(RuleBasedStateMachine):
    """One log, whose entries are their own offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.world = TieredWorld()
        self.log = self.world.open()

    def attempt(self, work: Awaitable[object]) -> None:
        """Run what a fault may end."""

        async def attempted() -> None:
            await work

        with suppress(Unavailable):
            self.world.do(attempted())

    def pick(self, at: int) -> int:
        """Return a segment of the log."""
        return self.log.segments[at % len(self.log.segments)].id

    @rule(n=st.integers(1, 7))
    def publish(self, n: int) -> None:
        self.world.append(self.log, *numbered(self.log.end, self.log.end + n))

    @rule(at=st.integers(0, 9), place=st.sampled_from([PLACE, OTHER]))
    def copy(self, at: int, place: str) -> None:
        if self.log.segments:
            self.attempt(self.log.offloading.copy(self.pick(at), place))

    @rule(ats=st.lists(st.integers(0, 9)))
    def drop(self, ats: list[int]) -> None:
        if self.log.segments:
            self.attempt(self.log.offloading.drop([self.pick(at) for at in ats]))

    @rule(before=st.integers(0, 30))
    def trim(self, before: int) -> None:
        self.attempt(self.log.trim(before))

    @rule()
    def delete_unused(self) -> None:
        self.attempt(self.log.offloading.delete_unused())

    @rule(seed=st.none() | st.integers(0, 1 << 16))
    def faults(self, seed: int | None) -> None:
        for objects in self.world.places.values():
            objects.fault = None if seed is None else seeded(seed)

    @rule(land=st.booleans())
    def late_writes(self, land: bool) -> None:
        """Let what was late take place."""
        for objects in self.world.places.values():
            while land and objects.land():
                pass

    @rule(in_order=st.booleans())
    def restart(self, in_order: bool) -> None:
        """Start again, behind a stop or a kill."""
        if in_order:
            self.world.do(self.log.close())
            self.world.do(self.world.store.close())
        else:
            self.world.disk = self.world.disk.copy()
        self.world.start()
        self.log = self.world.open()

    @invariant()
    def every_object_is_listed(self) -> None:
        complete = {(c.place, c.name) for c in copies_in(self.world.record()) if c.completed_ms}
        needed = {
            (one.copy.place, one.copy.name)
            for one in self.log.segments
            if one.copy and one.is_copied
        }
        assert needed <= complete <= self.world.listed()
        assert needed <= self.world.stored(), "what the log reads is there"

    def teardown(self) -> None:
        self.world.mend()
        for objects in self.world.places.values():
            while objects.land():
                pass
        expected = numbered(self.log.first_offset, self.log.end)
        assert self.world.read_all(self.log) == expected
        self.world.move(self.log)
        assert self.world.read_all(self.log) == expected
        self.lose_the_record(expected)

    def lose_the_record(self, expected: list[bytes]) -> None:
        """Rebuild the record from the segments and the objects: every entry is where it was."""
        offsets = range(self.log.first_offset, self.log.end)
        positions = [self.log.position(offset) for offset in offsets]
        self.world.do(self.log.close())
        found = FoundObjects()
        for place in self.world.places:
            chosen = candidates(self.world.places[place], place, [self.world.prefix], found)
            found.add(examined(one, self.world.places.__getitem__, b"") for one in chosen)
        now_ms = self.world.clock.now_ms()
        logs = self.world.do(rebuilt(self.world.store, now_ms, lambda _: None, found.segments)).logs
        if not expected:
            return
        self.world.do(self.world.metadata.put(KEY, logs[KEY].record.encode()))
        log = self.world.open()
        # Objects that were about to be deleted are back: the log may begin earlier.
        assert log.first_offset <= offsets.start and log.end == offsets.stop
        assert self.world.read_all(log, offsets.start) == expected
        assert [log.position(offset) for offset in offsets] == positions


Offloading.TestCase.settings = settings(max_examples=examples(120), stateful_step_count=25)
TestOffloading = Offloading.TestCase
