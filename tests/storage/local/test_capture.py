"""A captured checkpoint holds what was durable when it was decided, and needs no journal."""

from dataclasses import replace

import pytest

from fakes.local_store import TINY, Machine
from fakes.world import start
from magnetar_storage.local.checkpoint import Checkpoint
from magnetar_storage.local.segment_file import file_name
from magnetar_storage.local.write_behind import IDS_LEFT_OUT, Capture
from magnetar_storage.world.runtime import Promise
from magnetar_storage.world.whole_files import read_file

LIMITS = replace(TINY, write_behind_bytes=1 << 20, checkpoint_bytes=1 << 20)


def opened() -> Machine:
    machine = Machine(limits=LIMITS)
    machine.open()
    return machine


def test_it_counts_every_durable_entry_and_begins_a_new_journal_file() -> None:
    machine = opened()
    number = machine.create()
    machine.append(number, [b"one", b"two"], [1, 1])
    machine.pump()
    taken: list[Checkpoint] = []
    begun, done = machine.store.capture(taken.append)
    machine.pump()
    assert begun.done() and done.done()
    (found,) = taken
    assert found.rows[number].entries == 2
    assert found.rows[number].length == len(read_file(machine.disk, file_name(number)))
    assert found.position.offset == 0
    assert found.next_segment > number + IDS_LEFT_OUT
    machine.check()


def test_a_segment_that_is_deleted_before_the_files_are_taken_is_not_in_it() -> None:
    machine = opened()
    kept, deleted = machine.create(), machine.create()
    for number in (kept, deleted):
        machine.append(number, [b"x"], [1])
    machine.pump()
    taken: list[Checkpoint] = []
    outcomes: list[BaseException | None] = []
    machine.store._write_behind.capture(
        Capture(lambda: machine.store._deleted(deleted), taken.append, outcomes.append)
    )
    machine.pump()
    (found,) = taken
    assert outcomes == [None]
    assert set(found.rows) == {kept}
    assert file_name(deleted).rpartition("/")[2] not in machine.disk.list("segments")


async def _outcome(done: Promise) -> None:
    await done


def test_what_fails_for_the_one_who_takes_fails_nothing_else() -> None:
    machine = opened()
    number = machine.create()
    machine.append(number, [b"x"], [1])
    machine.pump()

    def fail(checkpoint: Checkpoint) -> None:
        raise OSError("no room")

    _, done = machine.store.capture(fail)
    also = start(machine.store.checkpoint())
    machine.pump()
    with pytest.raises(OSError, match="no room"):
        machine.do(_outcome(done))
    assert also.result() is None
    machine.check()
