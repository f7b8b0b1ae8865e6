"""Files that the store did not write, or not so long: ignored, or refused at once."""

import pytest

from fakes.faulty_disk import FaultyDisk
from fakes.local_store import Machine
from magnetar_storage.errors import Corrupt
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import footer, rounds
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.record import (
    CRC_BYTES,
    HEADER,
    INDEX,
    MAGIC,
    TABLE_BYTES_PER_ENTRY,
    encode,
    record_at,
)


def put(disk: FaultyDisk, name: str, data: bytes) -> None:
    disk.open(name, create=True).write(0, [data])


@pytest.mark.parametrize(
    "stem", ["zz000000000000zz", "-00000000000000f", "0x0000000000000f", "0000_0000_0000_f"]
)
def test_a_number_is_sixteen_digits(stem: str) -> None:
    machine = Machine()
    machine.open()
    machine.close()
    for name in (f"checkpoint-{stem}", f"journal/{stem}.wal", f"segments/{stem}.seg"):
        put(machine.disk, name, b"anything")
    assert rounds.file_number(f"{stem}.wal") is None
    assert segment.segment_of(f"{stem}.seg") is None
    assert len(checkpoints.numbers(machine.disk)) == 1
    machine.open()
    machine.check_still_works()


def test_a_copy_of_a_checkpoint_under_another_name_is_not_used() -> None:
    machine = Machine()
    machine.open()
    number = machine.create()
    machine.append(number, [b"first"], [1])
    machine.pump()
    newest = checkpoints.file_name(checkpoints.numbers(machine.disk)[0])
    put(machine.disk, checkpoints.file_name(255), machine.disk.content(newest))
    machine.disk.locks.clear()
    for _ in range(2):
        machine.open()
        machine.check()
        machine.close()


def test_a_file_that_is_far_too_short_is_scanned_to_its_end() -> None:
    """Not byte by byte to where it should end."""
    disk = FaultyDisk()
    put(disk, segment.file_name(1), segment.encode_file_head(1))
    index = segment.load_unfinished(disk, 1, length=1 << 60, entries=3, messages=5)
    assert (index.entries, index.messages.all) == (3, 5)


def test_a_file_cut_within_the_tables_of_a_block_is_damaged_there() -> None:
    machine = Machine()
    machine.open()
    number = machine.create()
    machine.append(number, [b"first"], [1])
    machine.append(number, [b"a", b"b", b"c"], [1, 2, 3])
    machine.pump()
    machine.close()
    name = segment.file_name(number)
    whole = machine.disk.content(name)
    tables = len(whole) - len(b"abc") - 3 * TABLE_BYTES_PER_ENTRY
    for size in range(tables, len(whole)):
        machine.disk.replace_content(name, whole[:size])
        assert machine.open_without_missing() == (number,)
        reader = machine.do(machine.store.reader(number))
        assert machine.do(reader.read(0, 9, 1 << 20)).payloads == [b"first"]
        assert [machine.do(reader.messages_before(entry)) for entry in (1, 4)] == [1, 7]
        with pytest.raises(Corrupt, match="entries 1 to 3"):
            machine.do(reader.read(1, 9, 1 << 20))
        machine.disk.locks.clear()


@pytest.mark.parametrize("entries", [2, 4])
def test_an_index_that_contradicts_itself_is_rebuilt(entries: int) -> None:
    machine = Machine()
    machine.open()
    number = machine.create()
    machine.append(number, [b"a", b"b", b"c"], [1, 2, 3])
    machine.seal(number)
    machine.close()
    name = segment.file_name(number)
    whole = machine.disk.content(name)
    at = whole.rindex(MAGIC) - CRC_BYTES
    record = record_at(whole, at)
    assert record is not None and record.kind == INDEX
    body = whole[record.at + HEADER.size : record.end]
    forged = encode(INDEX, number, body, n=entries)
    machine.disk.replace_content(name, whole[:at] + forged + whole[record.end :])
    index, trouble = footer.load(machine.disk, number)
    assert index.entries == 3 and trouble is not None and "index damaged" in trouble
