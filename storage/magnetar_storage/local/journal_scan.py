"""Reading one journal file after a restart (docs/formats.md, "Journal").  Pure.

A file is clean; or torn at n: the last round was never synced; or damaged at n: the round had
been synced, since something later exists, so its intact records count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from magnetar_storage.errors import Corrupt
from magnetar_storage.local import rounds
from magnetar_storage.local.record import CRC_BYTES, Record, record_at, records_in
from magnetar_storage.local.rounds import (
    CLEAN_END,
    DIRECTORY_BYTES_PER_RECORD,
    FIRST_ROUND_AT,
    ROUND_HEADER,
    RoundEntry,
)


class Lost(NamedTuple):
    """A stretch of a journal file whose records cannot be attributed to segments any more."""

    at: int
    end: int


class Stray(NamedTuple):
    """An intact record in such a stretch, possibly left from the file's last use."""

    record: Record


Item = Record | RoundEntry | Stray | Lost
"""A record, the place of a damaged one, or a lost stretch after the records found in it."""


@dataclass
class JournalScan:
    """Reads the rounds of one journal file; pure."""

    data: bytes
    seed: int
    complete: bool
    """Whether a later file exists, so that everything in this one had been synced."""
    end: int | None
    """The offset of the END round, if known from the next file's head."""
    last_round: int
    torn_at: int | None = None
    ended: bool = False
    """Whether the file ends with the END round."""
    clean_at: int | None = None
    """The end of a last file that has no END round and was not torn; later bytes do not count."""

    def items(self, at: int) -> Iterator[Item]:
        """Yield all items from a round's beginning on; sets what is found out about the end."""
        while True:
            found = rounds.round_at(self.data, at, self.seed)
            # promise[without and found.number > self.last_round]: a round of an earlier use of the
            #   file is never taken for a new one
            if found is not None and found.number > self.last_round:
                items = [self._item(place) for place in found.places]
                whole = all(isinstance(item, Record) for item in items)
                # promise: a torn round is never used
                if not whole and not self._synced(found.end, found.number):
                    self.torn_at = at
                    return
                yield from items
                self.last_round, at = found.number, found.end
                if found.ends_file:
                    self.ended = True
                    return
                continue
            later = rounds.next_round(self.data, at, self.seed, self.last_round)
            if later is None and self._ends_at(at):
                self.clean_at = None if self.complete else at
                return
            # Nothing was written after it, and nothing else proves that it was synced: a crash cut
            # it.
            if later is None and not self.complete:
                self.torn_at = at
                return
            if later is None:
                yield from self._salvage_last(at)
                return
            # A later round proves that this one was durable, since rounds are written one after the
            # other: what is intact of it counts.
            yield from self._salvage(at, later.at)
            at = later.at

    def _item(self, place: RoundEntry) -> Record | RoundEntry:
        record = record_at(self.data, place.at)
        if record is None or (record.segment, record.size) != (place.segment, place.size):
            return place
        # In a reused file an intact old record may be in the place of a new one that never arrived.
        # promise[without if place.crc == _crc_at(self.data, place.at) else place]: a reference is
        #   followed only to the record whose checksum it has
        return record if place.crc == _crc_at(self.data, place.at) else place

    def _synced(self, at: int, number: int) -> bool:
        later = rounds.next_round(self.data, at, self.seed, number)
        return self.complete or later is not None

    def _ends_at(self, at: int) -> bool:
        if self.complete:
            return self.end is not None and at >= self.end
        return not any(self.data[at : at + len(CLEAN_END)])

    def _salvage_last(self, at: int) -> Iterator[Item]:
        """Salvage the end of a file; if the end is unknown, old records may follow it."""
        if self.end is None:
            yield Lost(at, len(self.data))
        else:
            yield from self._salvage(at, self.end)

    def _salvage(self, at: int, end: int) -> Iterator[Item]:
        """Yield the records of rounds with a damaged header, and `Lost` if any may be missing."""
        records = list(records_in(self.data, at, end))
        if self._fill_a_round(records, at, end):
            yield from records
        else:
            yield from map(Stray, records)
            yield Lost(at, end)

    def _fill_a_round(self, records: list[Record], at: int, end: int) -> bool:
        """Return whether these are all records of one round."""
        if self.data.startswith(CLEAN_END, at):
            # The write never arrived here; what follows may be a round of the file's last use.
            return False
        expected = at + ROUND_HEADER.size + DIRECTORY_BYTES_PER_RECORD * len(records)
        for record in records:
            if record.at != expected:
                return False
            expected = record.end
        return bool(records) and expected == end


def scan_of(
    number: int, data: bytes, following: bytes | None, last_round: int
) -> JournalScan | None:
    """Create a scan of a journal file; None if a crash left the file before its first round."""
    name = rounds.file_name(number)
    complete, end = following is not None, None
    next_head = rounds.decode_file_head(following or b"")
    if next_head is not None:
        complete, end = next_head.previous_end > 0, next_head.previous_end or None
    candidates = rounds.seeds(data)
    head = rounds.decode_file_head(data)
    if head is not None and head.file != number:
        raise Corrupt(
            name,
            0,
            f"expected journal file {number} but it holds {head.file}; restore it from a copy",
        )
    if head is None:
        if not complete and data[FIRST_ROUND_AT:].startswith(CLEAN_END):
            return None
        # The head is damaged, and with it perhaps the seed: the right one is that for which a round
        # checks out.
        candidates = [
            seed
            for seed in candidates
            if rounds.next_round(data, FIRST_ROUND_AT, seed, last_round) is not None
        ]
        if not candidates:
            raise Corrupt(
                name, 0, "neither its head nor any round is intact; restore the file from a copy"
            )
    return JournalScan(data, candidates[0], complete, end, last_round)


def _crc_at(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + CRC_BYTES], "little")
