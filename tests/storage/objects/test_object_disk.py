"""Finished segments that are read from a store of objects by the code that reads files."""

from collections.abc import Callable

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.faulty_objects import Fault, FaultyObjects
from fakes.local_store import SMALL_JOURNAL
from fakes.origins import MESSAGES
from fakes.world import InlineWorkers, ManualClock, run
from magnetar_storage.errors import Corrupt, NoSegment, Unavailable
from magnetar_storage.local import segment_file
from magnetar_storage.local.finished_segments import FinishedSegments
from magnetar_storage.local.segment_writer import LocalReader
from magnetar_storage.local.store import LocalStore
from magnetar_storage.objects.object_disk import ObjectDisk, ObjectFile, StoredFile

BYTES = bytes(range(100))


def stored(data: bytes = BYTES) -> tuple[FaultyObjects, ObjectDisk]:
    """Return a store with one object, and the disk that has it as file segments/1."""
    objects = FaultyObjects()
    objects.put("tier/x", data)
    return objects, ObjectDisk(objects, {"segments/1": StoredFile("tier/x", len(data))})


def test_a_file_is_read_by_ranges_without_asking_for_its_size() -> None:
    objects, disk = stored()
    file = disk.open("segments/1")
    assert file.size() == 100
    assert file.read(10, 5) == BYTES[10:15]
    assert file.read(95, 50) == BYTES[95:]
    assert objects.log == ["read tier/x", "read tier/x"]
    for offset, size in ((100, 5), (200, 5), (5, 0)):
        assert file.read(offset, size) == b""
    assert len(objects.log) == 2
    file.sync()
    file.close()


def test_names_are_listed_like_files() -> None:
    _, disk = stored()
    assert disk.list("segments") == ["1"]
    assert disk.list("") == ["segments"]
    assert disk.list("other") == []
    assert disk.sizes("segments") == {"1": 100}
    assert disk.sizes("") == {}
    assert disk.path_of("segments/1") == "tier/x"
    assert disk.path_of("segments/2") == "segments/2"
    disk.lock("lock").close()
    with pytest.raises(FileNotFoundError):
        disk.open("segments/2")


def test_a_missing_object_is_a_missing_segment() -> None:
    objects, disk = stored()
    objects.delete("tier/x")
    with pytest.raises(NoSegment, match="segments/1: object tier/x does not exist"):
        disk.open("segments/1").read(0, 10)


def test_an_object_of_another_size_is_damage() -> None:
    objects, disk = stored()
    objects.put("tier/x", BYTES[:50])
    file = disk.open("segments/1")
    assert file.read(0, 50) == BYTES[:50]
    with pytest.raises(
        Corrupt, match="segments/1 at byte 50: object tier/x has 50 bytes: exp"
    ) as e:
        file.read(40, 20)
    assert e.value.offset == 50
    with pytest.raises(Corrupt):
        file.read(60, 20)


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.LOST, Fault.BUSY, Fault.EXPIRED])
def test_an_answer_that_is_cut_or_missing_is_no_damage(fault: Fault) -> None:
    objects, disk = stored()
    objects.fault = lambda operation, name: fault
    with pytest.raises(Unavailable):
        disk.open("segments/1").read(0, 20)


def writes(file: ObjectFile) -> list[Callable[[], None]]:
    """Return the calls that would change a file."""
    return [
        lambda: file.write(0, [b"x"]),
        lambda: file.write_uncached(0, [b"x"]),
        lambda: file.write_through(0, [b"x"]),
        lambda: file.truncate(0),
        lambda: file.allocate(1000),
    ]


def test_nothing_can_be_written() -> None:
    objects, disk = stored()
    for write in writes(disk.open("segments/1")):
        with pytest.raises(Unavailable, match="segments/1 is in a store of objects and cannot be"):
            write()
    assert objects.content("tier/x") == BYTES


def test_a_finished_segment_is_read_from_its_object() -> None:
    clock, local = ManualClock(), FaultyDisk()
    workers = InlineWorkers(clock)
    store = run(LocalStore.open(local, workers, clock, SMALL_JOURNAL), clock)
    writer = run(store.create(MESSAGES), clock)
    sent = [b"%d" % number * (1 + number % 90) for number in range(2000)]
    for first in range(0, 2000, 100):
        writer.append(sent[first : first + 100], [1 + first % 3] * 100, lambda error: None)
    clock.pump()
    sealed = run(writer.seal(), clock)
    run(store.finish(writer.segment), clock)
    name = segment_file.file_name(writer.segment)
    data = local.content(name)

    objects = FaultyObjects()
    objects.put("tier/segment", data)
    disk = ObjectDisk(objects, {name: StoredFile("tier/segment", len(data))})
    files = FinishedSegments(disk, workers.reads, 10, print)
    segment = run(files.load(writer.segment), clock)
    assert segment.sealed == sealed
    assert len(objects.log) <= 3  # the footer and the index, however long the segment is
    reader = LocalReader(segment, disk, workers.reads)
    got: list[bytes] = []
    while len(got) < 2000:
        found = run(reader.read(len(got), 700, 1 << 20), clock)
        assert found.payloads
        got += found.payloads
    assert got == sent

    # What is missing or damaged there is reported as it is of a file.
    objects.delete("tier/segment")
    with pytest.raises(NoSegment):
        run(reader.read(0, 700, 1 << 20), clock)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    objects.put("tier/segment", bytes(damaged))
    with pytest.raises(Corrupt):
        for first in range(0, 2000, 100):
            run(reader.read(first, 100, 1 << 20), clock)
    run(store.close(), clock)
