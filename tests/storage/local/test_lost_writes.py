"""A write that the disk confirmed but never made: former content of a journal file is visible."""

from collections.abc import Iterator

import pytest

from fakes.local_store import Machine, Truth
from fakes.origins import MESSAGES
from magnetar_storage.errors import Corrupt
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.record import HEADER, TABLE_BYTES_PER_ENTRY
from magnetar_storage.local.rounds import CLEAN_END, DIRECTORY_BYTES_PER_RECORD, ROUND_HEADER

SMALL = Limits(
    journal_file_bytes=900,
    round_bytes=400,
    write_behind_bytes=1 << 20,
    checkpoint_bytes=1200,
    loaded_segments=2,
)
BEFORE_RECORD = ROUND_HEADER.size + DIRECTORY_BYTES_PER_RECORD
BEFORE_PAYLOAD = BEFORE_RECORD + HEADER.size + TABLE_BYTES_PER_ENTRY
ROUNDS = 30


def payload(number: int) -> bytes:
    return b"entry %9d" % number


def present(machine: Machine) -> tuple[str, str]:
    """Return the newest journal file and checkpoint."""
    names = machine.disk.names()
    journals = [name for name in names if name.endswith(".wal")]
    return journals[-1], next(name for name in names if name.startswith("checkpoint"))


def append(machine: Machine, number: int, text: bytes) -> None:
    machine.append(number, [text], [1])
    machine.pump()


def restarted(machine: Machine, name: str, content: bytes) -> Machine:
    twin = Machine(machine.disk.copy(), machine.limits)
    twin.disk.replace_content(name, content)
    twin.truths = {
        number: Truth(list(truth.appended), truth.confirmed, truth.sealed)
        for number, truth in machine.truths.items()
    }
    twin.open()
    return twin


def finished_and_open(entries: int) -> tuple[Machine, int, int]:
    """Create a finished segment whose rounds are still in journal files, and an open one."""
    machine = Machine(limits=SMALL)
    machine.open()
    finished = machine.create()
    for number in range(entries):
        append(machine, finished, payload(number))
    machine.seal(finished)
    opened = machine.create()
    machine.do(machine.store.checkpoint())
    return machine, finished, opened


def lost_rounds(entries: int, later: int) -> Iterator[tuple[Machine, str, int, int]]:
    """Yield restarted machines with one lost round and `later` rounds behind it: file, segments."""
    machine, finished, opened = finished_and_open(entries)
    for number in range(ROUNDS):
        name, checkpoint = present(machine)
        before = machine.disk.content(name)
        append(machine, opened, payload(entries + number))
        if name not in machine.disk.names():
            continue
        at = machine.disk.content(name).find(payload(entries + number)) - BEFORE_PAYLOAD
        for extra in range(later):
            append(machine, opened, payload(10**6 + number * later + extra))
        if at < 0 or not before.startswith(CLEAN_END, at) or present(machine)[1] != checkpoint:
            continue
        end = at + BEFORE_PAYLOAD + len(payload(0))
        now = machine.disk.content(name)
        rotten = now[:at] + before[at:end] + now[end:]
        yield restarted(machine, name, rotten), name, finished, opened


@pytest.mark.parametrize("later", [1, 9])
def test_a_lost_round_is_reported_and_loses_only_its_entries(later: int) -> None:
    """Rounds have equal size: an old one, valid but for its header, is in place of a lost one."""
    checked = 0
    for entries in range(40, 42):
        for twin, name, finished, opened in lost_rounds(entries, later):
            (loss,) = [found for found in twin.store.findings if found.data_lost]
            assert loss.file == name
            assert twin.read_all(finished) == twin.truths[finished].appended
            reader = twin.do(twin.store.reader(opened))
            refused = 0
            for entry, expected in enumerate(twin.truths[opened].appended):
                try:
                    run = twin.do(reader.read(entry, 1, 1 << 20))
                except Corrupt as error:
                    assert (error.segment, error.first_entry) == (opened, entry)
                    refused += 1
                else:
                    assert (run.payloads, list(run.counts)) == ([expected[0]], [expected[1]])
            assert refused == 1
            checked += 1
    assert checked > 5


def test_ids_of_a_last_round_that_may_have_rotted_are_not_given_out_again() -> None:
    """The round may have been confirmed: a topic may list the segment created in it."""
    machine = Machine(limits=SMALL)
    machine.open()
    append(machine, machine.create(), b"something")
    name, _ = present(machine)
    before = machine.disk.content(name)
    confirmed = machine.create()
    content = bytearray(machine.disk.content(name))
    changed = next(at for at in range(len(content)) if content[at] != before[at])
    content[changed] ^= 1
    twin = restarted(machine, name, bytes(content))
    assert "cut short" in twin.store.findings[0].text
    assert twin.do(twin.store.create(MESSAGES)).segment > confirmed


def test_a_segment_of_which_nothing_is_left_is_damaged_and_not_missing() -> None:
    machine = Machine(limits=SMALL)
    machine.open()
    number = machine.create()
    name, _ = present(machine)
    before = machine.disk.content(name)
    append(machine, number, payload(0))
    # Including the origin, which is in the same round.
    before_origin = HEADER.size + BEFORE_RECORD + DIRECTORY_BYTES_PER_RECORD
    at = machine.disk.content(name).index(b'{"log"') - before_origin
    machine.seal(number)
    now = machine.disk.content(name)
    end = now.index(payload(0)) + len(payload(0))
    twin = restarted(machine, name, now[:at] + before[at:end] + now[end:])
    assert segment.file_name(number) not in twin.disk.names()
    reader = twin.do(twin.store.reader(number))
    with pytest.raises(Corrupt, match="lost") as refused:
        twin.do(reader.read(0, 1, 1 << 20))
    assert (refused.value.segment, refused.value.first_entry) == (number, 0)
