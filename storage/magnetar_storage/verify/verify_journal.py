"""Finds damage in heads and rounds of the journal, even where recovery loses nothing by it."""

from collections.abc import Iterator

from magnetar_storage.local import rounds
from magnetar_storage.local.journal import JournalPosition
from magnetar_storage.runtime.disk import Disk
from magnetar_storage.runtime.whole_files import read_file


def damaged_frames(disk: Disk, start: JournalPosition) -> Iterator[tuple[str, int, str]]:
    """Yield file, offset and description of damage in the journal from `start` on."""
    files = [rounds.file_number(name) for name in disk.list("journal")]
    for number in (number for number in files if number is not None and number >= start.file):
        name = rounds.file_name(number)
        data = read_file(disk, name)
        if rounds.decode_file_head(data) is None:
            yield name, 0, "the head of the file is damaged"
        at = start.offset if number == start.file and start.offset else rounds.FIRST_ROUND_AT
        end = _end_by_next_head(disk, number + 1) if number + 1 in files else 0
        by_seed = [_damaged_rounds(data, at, seed, end) for seed in rounds.seeds(data)]
        for place in min(by_seed, key=len, default=[]):
            yield name, place, "the header of a round is damaged"


def _end_by_next_head(disk: Disk, following: int) -> int:
    """Return the end of the file before `following`, by that file's head; 0 if it is damaged."""
    file = disk.open(rounds.file_name(following))
    try:
        head = rounds.decode_file_head(file.read(0, rounds.FIRST_ROUND_AT))
    finally:
        file.close()
    return 0 if head is None else head.previous_end


def _damaged_rounds(data: bytes, at: int, seed: int, end: int) -> list[int]:
    """Return the offsets where a round should begin and none does, except after the last one."""
    damaged: list[int] = []
    number = 0
    while True:
        found = rounds.round_at(data, at, seed)
        if found is None:
            found = rounds.next_round(data, at, seed, number)
            if found is not None or at <= end:
                damaged.append(at)
            if found is None:
                return damaged
        if found.ends_file:
            return damaged
        number, at = found.number, found.end
