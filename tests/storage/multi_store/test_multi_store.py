"""A store over several directories: the owner of a segment, and its readers."""

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import TINY, Machine
from fakes.origins import MESSAGES
from fakes.worker_stores import WorkerBooks, WorkerStores
from fakes.world import InlineWorkers, ManualClock, run
from magnetar_storage.errors import Corrupt, DataDirLocked, Fenced, NoSegment, Unavailable
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import directories
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.segment_ids import (
    FIRST_WITH_DIRECTORY,
    directory_of,
    following,
)
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.multi_store.opening import open_store


def books_of(count: int) -> WorkerBooks:
    return WorkerBooks(FaultyDisk(), count)


def filled(books: WorkerBooks, worker: int) -> SegmentId:
    """Create an open segment of a worker with two entries."""
    books.turn_to(worker)
    made = books.create()
    books.append(made, [b"a", b"bb"], [1, 3])
    books.pump()
    return made


def listed(books: WorkerBooks, store: JoinedStore) -> list[SegmentId]:
    async def collect() -> list[SegmentId]:
        return [number async for number in store.segments()]

    return books.do(collect())


def test_a_directory_that_is_alone_keeps_its_small_ids() -> None:
    books = books_of(1)
    assert [books.create(), books.create()] == [1, 2]
    books.close()
    books.start(1)
    assert books.create() == 3
    assert not [name for name in books.disk.names() if name.startswith("workers")]
    assert books.disk.content("FORMAT") == b"magnetar data directory, format 2\n"


def test_a_root_that_had_other_directories_goes_on_with_large_ids() -> None:
    books = books_of(1)
    small = filled(books, 0)
    books.close()
    books.start(2)
    large = filled(books, 0)
    assert small == 1 and large >= FIRST_WITH_DIRECTORY and directory_of(large) == 0
    books.close()
    books.start(1)
    assert books.create() > large
    books.check()


def test_new_ids_are_above_those_of_every_directory() -> None:
    books = books_of(3)
    books.turn_to(2)
    made = [books.create() for _ in range(20)]
    books.close()
    for count in (3, 1, 2):
        books.start(count)
        made.append(books.create())
        books.close()
    assert made == sorted(made)


def test_one_process_needs_no_others_to_know_all_ids() -> None:
    books = books_of(2)
    books.turn_to(1)
    latest = [books.create() for _ in range(20)][-1]
    books.close()
    clock = ManualClock()
    store = run(open_store(books.disk, InlineWorkers(clock), clock, TINY), clock)
    assert run(store.create(MESSAGES), clock).segment > latest


def test_ids_of_a_worker_that_starts_again_are_above_what_the_others_created_meanwhile() -> None:
    books = books_of(2)
    books.workers.kill(1)
    latest = [books.create() for _ in range(20)][-1]
    books.turn_to(1)
    assert books.create() > latest


def test_a_segment_that_follows_one_of_another_directory_has_a_larger_id() -> None:
    books = books_of(2)
    own = [books.create() for _ in range(40)]  # so that some are made ahead
    books.turn_to(1)
    before = [books.create() for _ in range(80)][-1]
    assert before > own[-1]
    books.turn_to(0)
    after = books.do(books.store.create(MESSAGES, before)).segment
    assert after > before and directory_of(after) == 0
    assert books.do(books.store.create(MESSAGES, own[-1])).segment == following(after)
    assert books.do(books.store.create(MESSAGES, before)).segment == following(after, 2)


def test_each_worker_creates_in_its_own_directory_and_reads_all() -> None:
    books = books_of(3)
    made = [filled(books, worker) for worker in range(3)]
    assert [directory_of(number) for number in made] == [0, 1, 2]
    for worker in range(3):
        books.turn_to(worker)
        assert listed(books, books.store) == [made[worker]]
        for number in made:
            books.check_segment(number)


def test_one_process_opens_the_directories_of_more_workers() -> None:
    books = books_of(4)
    made = [filled(books, worker) for worker in range(4)]
    books.close()
    for count in (2, 1):
        books.start(count)
        books.check()
        found = [listed(books, books.workers.stores[worker]) for worker in range(count)]
        assert found == [made[worker::count] for worker in range(count)]
        books.close()


def test_what_was_read_from_another_directory_is_not_asked_for_again() -> None:
    books = books_of(2)
    made = filled(books, 1)
    books.turn_to(0)
    books.check_segment(made)
    asked = books.workers.links[1].asked
    assert ("finish", made) in asked
    asked.clear()
    assert books.read_all(made) == [(b"a", 1), (b"bb", 3)]
    assert asked == []


def test_a_segment_of_another_directory_is_finished_before_it_is_read() -> None:
    books = books_of(2)
    made = filled(books, 1)
    name = f"workers/1/{segment.file_name(made)}"
    assert name not in books.disk.names(), "it is in the journal only"
    books.turn_to(0)
    books.do(books.store.reader(made))
    content = books.disk.content(name)
    assert content[-60:-52] == b"MAGNSEAL"
    books.disk.crash(lambda ways: 0)
    books.start(2)
    assert books.read_all(made) == [(b"a", 1), (b"bb", 3)]
    assert books.disk.content(name) == content


def test_a_row_of_an_earlier_life_is_finished_too() -> None:
    books = books_of(2)
    made = filled(books, 1)
    books.disk.crash(lambda ways: 0)
    books.start(2)
    assert books.read_all(made) == [(b"a", 1), (b"bb", 3)]


def test_the_writer_of_a_segment_that_moved_is_fenced() -> None:
    books = books_of(2)
    made = filled(books, 1)
    writer, outcome = books.writers[made], list[BaseException | None]()
    books.turn_to(0)
    assert books.do(books.store.recover(made)) == (2, 4, 3)
    writer.append([b"late"], [1], outcome.append)
    books.pump()
    assert len(outcome) == 1 and isinstance(outcome[0], Fenced)


def test_a_deletion_ends_what_others_read() -> None:
    books = books_of(2)
    made = filled(books, 1)
    books.turn_to(0)
    reader = books.do(books.store.reader(made))
    books.delete(made)
    books.do(books.store.delete(made))
    with pytest.raises(NoSegment):
        books.do(reader.read(0, 9, 99))
    for worker in range(2):
        books.turn_to(worker)
        with pytest.raises(NoSegment):
            books.do(books.store.reader(made))


def test_a_deletion_by_its_holder_is_seen_by_who_reads_it() -> None:
    books = books_of(2)
    made = filled(books, 1)
    books.turn_to(0)
    reader = books.do(books.store.reader(made))
    books.turn_to(1)
    books.delete(made)
    with pytest.raises(NoSegment):
        books.do(reader.read(0, 9, 99))


def test_a_segment_that_is_deleted_while_it_is_finished_is_missing() -> None:
    books = books_of(2)
    made = filled(books, 1)
    store = books.store.opened(made)
    books.delete(made)
    with pytest.raises(NoSegment):
        books.do(store.finish(made))


def test_a_worker_that_cannot_be_asked_leaves_the_answer_open() -> None:
    books = books_of(2)
    made = filled(books, 1)
    books.workers.kill(1)
    books.turn_to(0)
    for work in (
        books.store.recover(made),
        books.store.reader(made),
        books.store.delete(made),
    ):
        with pytest.raises(Unavailable):
            books.do(work)


def test_who_is_asked_for_what_it_has_not_opened_does_not_ask_further() -> None:
    books = books_of(2)
    made = filled(books, 1)
    with pytest.raises(Unavailable, match="in directory 1, which is not open here"):
        books.workers.stores[0].opened(made)


def test_a_directory_that_does_not_exist_has_no_segments() -> None:
    books = books_of(2)
    lost = FIRST_WITH_DIRECTORY + 9
    with pytest.raises(NoSegment, match="the data directory has no workers/9"):
        books.do(books.store.recover(lost))
    books.do(books.store.delete(lost))


def test_findings_name_the_directory() -> None:
    books = books_of(2)
    made = filled(books, 1)
    books.seal(made)
    books.close()
    name = f"workers/1/{segment.file_name(made)}"
    books.disk.flip_bit(name, len(books.disk.content(name)) - 1)
    for count in (1, 2):
        books.start(count)
        books.read_all(made)
        (found,) = books.workers.stores[0].findings
        assert found.file == name and found.text.startswith("workers/1: segments/")
        books.close()


def test_a_directory_in_use_lets_go_of_the_others() -> None:
    disk = FaultyDisk()
    directories.prepare(disk, 3)
    held = disk.lock("workers/2/LOCK")
    clock = ManualClock()

    async def opening() -> JoinedStore:
        return await open_store(disk, InlineWorkers(clock), clock, TINY)

    with pytest.raises(DataDirLocked):
        run(opening(), clock)
    held.close()
    store = run(opening(), clock)
    assert disk.locks == {"LOCK", "workers/1/LOCK", "workers/2/LOCK"}
    run(store.close(), clock)
    assert not disk.locks


def test_the_lock_of_the_data_directory_may_be_held_by_the_caller() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    lock = disk.lock("LOCK")
    directories.prepare(disk, 2)
    store = run(open_store(disk, InlineWorkers(clock), clock, TINY, lock=lock), clock)
    run(store.close(), clock)
    assert not disk.locks


def test_what_cannot_be_closed_does_not_keep_the_others_open() -> None:
    books = books_of(3)
    books.close()
    books.start(1)
    for number in (1, 2):
        store = books.store.opened(FIRST_WITH_DIRECTORY + number)
        writer = books.do(store.create(MESSAGES))
        writer.append([b"x" * 500], [1], lambda error: None)
    failing = f"workers/2/{segment.file_name(writer.segment)}"
    books.disk.fault = lambda what, name: Unavailable(what) if name == failing else None
    with pytest.raises(Unavailable):
        books.close()
    assert not books.disk.locks


def test_directories_that_the_format_denies_are_refused() -> None:
    machine = Machine()
    machine.open()
    machine.close()
    other = Machine(machine.disk, directory=1)
    other.open()
    other.close()
    clock = ManualClock()
    with pytest.raises(Corrupt, match="workers/1 exists"):
        run(open_store(machine.disk, InlineWorkers(clock), clock, TINY), clock)
    machine.disk.remove("FORMAT")
    with pytest.raises(Corrupt, match="FORMAT"):
        run(open_store(machine.disk, InlineWorkers(clock), clock, TINY), clock)


def test_an_error_names_the_damaged_file_of_a_further_directory() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    directories.prepare(disk, 2)
    disk.open("workers/1/segments/1", create=True).close()
    disk.remove("workers/1/FORMAT")
    with pytest.raises(Corrupt, match="workers/1/FORMAT at byte 0"):
        run(open_store(disk, InlineWorkers(clock), clock, TINY), clock)


def test_workers_need_not_start_together() -> None:
    """A late worker reads no segments of the others before they have started."""
    disk = FaultyDisk()
    stores = WorkerStores(disk, 2)
    directories.prepare(disk, 2)
    stores.open(1)
    stores.open(0)
    stores.align()
    stores.close()
