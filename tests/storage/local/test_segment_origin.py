"""The origin of a segment exists as soon as it has entries, after any crash and some rot."""

from dataclasses import replace

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import TINY
from fakes.origins import MESSAGES
from fakes.world import InlineWorkers, ManualClock, QueuedWorkers, run, start
from magnetar_storage.identity import UNKNOWN, Identity
from magnetar_storage.interfaces import Replaced, SegmentKind, SegmentOrigin
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local import segment_origin
from magnetar_storage.local.record import HEADER, ORIGIN, encode, encode_entries
from magnetar_storage.local.store import LocalStore

BASE = replace(MESSAGES, first_offset=7)
LARGE = b"x" * 3 * TINY.round_bytes


class Again:
    """The store after a restart on a copy of the disk."""

    def __init__(self, disk: FaultyDisk) -> None:
        self.clock = ManualClock()
        twin = disk.copy()
        opening = LocalStore.open(twin, InlineWorkers(self.clock), self.clock, TINY)
        self.store = run(opening, self.clock)

    def entries(self, number: int) -> list[bytes]:
        reader = run(self.store.reader(number), self.clock)
        return run(reader.read(0, 9, 1 << 20), self.clock).payloads

    def origin(self, number: int) -> SegmentOrigin | None:
        return run(self.store.origin(number), self.clock)


def known(disk: FaultyDisk, number: int) -> tuple[list[bytes], SegmentOrigin | None]:
    """Return the entries and the origin of a segment after a restart."""
    again = Again(disk)
    return again.entries(number), again.origin(number)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_it_may_be_durable_before_the_entries(checkpoint: bool) -> None:
    """Large entries are written in the next round; a checkpoint in between drops the journal."""
    clock, disk = ManualClock(), FaultyDisk()
    workers = QueuedWorkers(clock)
    limits = replace(TINY, unwritten_bytes=1 << 20)
    store = run(LocalStore.open(disk, workers, clock, limits), clock, workers.step)
    writer = run(store.create(MESSAGES), clock, workers.step)
    writer.begin(7)
    writer.append([LARGE], [1], lambda error: None)
    clock.pump()
    workers.journal.step()
    clock.pump()
    assert len(workers.journal) == 1, "the entries wait for their round"
    if checkpoint:
        written = start(store.checkpoint())
        clock.pump()
        while not written.done():
            workers.background.step()
            clock.pump()
        assert known(disk, writer.segment) == ([], BASE)
    workers.journal.step()
    assert known(disk, writer.segment) == ([LARGE], BASE)


def test_all_of_it_is_read_again() -> None:
    origin = SegmentOrigin(
        "/topics/a/b/persistent/c+%C3%A9", SegmentKind.KEPT, 3, 4, 5,
        (Replaced(1, 2, 3, 4, 5, 6, 7), Replaced(8, 9, 10, 11, 12, 13, 14)),
    )  # fmt: skip
    for identity in (UNKNOWN, Identity(bytes(range(16)), 3, 77)):
        data = segment_origin.encoded(9, origin, identity)
        assert segment_origin.of(data, 9) == segment_origin.of(data) == (origin, identity)
        assert segment_origin.of(data, 8) is None
        assert segment_origin.of(data[:-1], 9) is None


def test_a_kind_of_a_later_release_is_none_that_is_known() -> None:
    data = segment_origin.encoded(9, MESSAGES, UNKNOWN)
    later = encode(ORIGIN, 9, data[HEADER.size :].replace(b'"messages"', b'"later"'))
    assert segment_origin.of(later) is None


def test_one_that_is_larger_than_most_is_read_whole() -> None:
    clock, disk = ManualClock(), FaultyDisk()
    store = run(LocalStore.open(disk, InlineWorkers(clock), clock, TINY), clock)
    many = tuple(Replaced(one, one, 1, one, 1, 1, 1) for one in range(300))
    origin = replace(MESSAGES, kind=SegmentKind.KEPT, replaces=many)
    writer = run(store.create(origin), clock)
    writer.append([b"entry"], [1], lambda error: None)
    clock.pump()
    run(store.close(), clock)
    assert known(disk, writer.segment) == ([b"entry"], origin)


def test_without_it_the_entries_are_found() -> None:
    """A rotten header may contain any size."""
    clock, disk = ManualClock(), FaultyDisk()
    store = run(LocalStore.open(disk, InlineWorkers(clock), clock, TINY), clock)
    writer = run(store.create(MESSAGES), clock)
    record, _ = encode_entries(writer.segment, 0, [b"entry"], [1])
    assert isinstance(record, bytes)
    writer.append([b"entry"], [1], lambda error: None)
    clock.pump()
    run(store.checkpoint(), clock)
    name = segment.file_name(writer.segment)
    end = disk.content(name).index(record)
    for at in range(segment.RECORDS_AT, end):
        rotten = disk.copy()
        rotten.flip_bit(name, at)
        assert known(rotten, writer.segment) == ([b"entry"], None)
