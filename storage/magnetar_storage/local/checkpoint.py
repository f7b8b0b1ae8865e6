"""Checkpoints: the state of segments outside of the journal (docs/formats.md, "Checkpoint")."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from struct import Struct, pack
from typing import NamedTuple

from crc32c import crc32c

from magnetar_storage.errors import Corrupt
from magnetar_storage.identity import UNKNOWN, Identity
from magnetar_storage.interfaces import Sealed, SegmentId
from magnetar_storage.local import footer, rounds
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.file_names import number_in
from magnetar_storage.local.journal import JournalPosition
from magnetar_storage.local.record import Buffers, flat
from magnetar_storage.runtime.disk import Disk, File, ReadableDisk
from magnetar_storage.runtime.whole_files import read_file, write_file

MAGIC = b"MAGNCKPT"
VERSION = 2
HEADER = Struct("<8sIIQQQQQQQ16sQQ")
"""magic, version, bytes of the suspects, number, file, offset, round, next segment, rows, finished
segments, identity."""
HEADER_1 = Struct("<8sIIQQQQQQ")
"""The header of version 1: without finished segments and identity."""

ROW = Struct("<QQQQQQ")
"""segment, entries, messages, payload bytes, durable bytes of the file, 1 if sealed."""

VERSIONS = Struct("<II")
"""version, bytes of the suspects: after the magic in every version."""

FILE = Struct("<QQ")
"""A finished segment, and the bytes of its file."""

CRC = Struct("<I")


@dataclass
class Row:
    """An unfinished segment: how much of it is in its file, and its end if it is sealed."""

    entries: int = 0
    messages: int = 0
    size: int = 0
    length: int = 0
    """Bytes of the file that are durable; what follows them in the file does not count."""
    sealed: bool = False
    suspect: str = ""
    """The reason why entries may be missing at the end; empty if none are."""


@dataclass
class Checkpoint:
    """The state that a restart needs besides the journal from `position` on."""

    number: int
    position: JournalPosition
    next_segment: SegmentId
    rows: dict[SegmentId, Row] = field(default_factory=dict)
    finished: dict[SegmentId, int] = field(default_factory=dict)
    """The file size of each finished segment; empty in a checkpoint of an earlier release."""
    identity: Identity = UNKNOWN


def file_name(number: int) -> str:
    return f"checkpoint-{number:016x}"


def numbers(disk: ReadableDisk) -> list[int]:
    """Return the numbers of the checkpoints, newest first."""
    found = [number_in(name, "checkpoint-") for name in disk.list("")]
    return sorted((number for number in found if number is not None), reverse=True)


def encode(checkpoint: Checkpoint) -> bytes:
    rows = checkpoint.rows
    # Suspects are rare and have long texts: after the tables they do not widen every row.
    suspects = {str(number): row.suspect for number, row in rows.items() if row.suspect}
    reasons = json.dumps(suspects).encode() if suspects else b""
    head = HEADER.pack(
        MAGIC, VERSION, len(reasons), checkpoint.number, *checkpoint.position,
        checkpoint.next_segment, len(rows), len(checkpoint.finished), *checkpoint.identity,
    )  # fmt: skip
    table = b"".join(
        ROW.pack(number, row.entries, row.messages, row.size, row.length, row.sealed)
        for number, row in rows.items()
    )
    finished = checkpoint.finished
    # In one call: there may be very many.
    files = pack(f"<{2 * len(finished)}Q", *chain.from_iterable(finished.items()))
    data = head + table + files + reasons
    return data + CRC.pack(crc32c(data))


def decode(data: bytes) -> Checkpoint | None:
    """Decode a checkpoint; None unless every byte is intact."""
    if len(data) < HEADER_1.size + CRC.size or data[:8] != MAGIC:
        return None
    body = data[: -CRC.size]
    # Over everything: recovery trusts each number, and what lies in a file after the length of its
    # row is overwritten.
    if CRC.unpack(data[-CRC.size :])[0] != crc32c(body):
        return None
    version, reason_bytes = VERSIONS.unpack_from(body, len(MAGIC))
    if version == 1:
        return _decode_1(body, reason_bytes)
    if version != VERSION or len(body) < HEADER.size:
        return None
    _, _, _, number, *rest = HEADER.unpack_from(body)
    file, offset, last, following, rows, files, *identity = rest
    files_at = HEADER.size + ROW.size * rows
    reasons_at = files_at + FILE.size * files
    if len(body) != reasons_at + reason_bytes:
        return None
    checkpoint = Checkpoint(number, JournalPosition(file, offset, last), following)
    checkpoint.identity = Identity(*identity)
    checkpoint.finished = dict(FILE.iter_unpack(body[files_at:reasons_at]))
    _decode_rows(checkpoint, body[HEADER.size : files_at], body[reasons_at:])
    return checkpoint


def _decode_1(body: bytes, reason_bytes: int) -> Checkpoint | None:
    """Decode a checkpoint of version 1."""
    _, _, _, number, file, offset, last, following, rows = HEADER_1.unpack_from(body)
    reasons_at = HEADER_1.size + ROW.size * rows
    if len(body) != reasons_at + reason_bytes:
        return None
    checkpoint = Checkpoint(number, JournalPosition(file, offset, last), following)
    _decode_rows(checkpoint, body[HEADER_1.size : reasons_at], body[reasons_at:])
    return checkpoint


def _decode_rows(checkpoint: Checkpoint, table: bytes, reasons: bytes) -> None:
    for of, entries, messages, size, length, sealed in ROW.iter_unpack(table):
        checkpoint.rows[of] = Row(entries, messages, size, length, bool(sealed))
    if reasons:
        for of_text, suspect in json.loads(reasons).items():
            checkpoint.rows[int(of_text)].suspect = suspect


def read_newest(disk: Disk) -> Checkpoint:
    """Read the newest intact checkpoint whose journal files still exist."""
    found = numbers(disk)
    for number in found:
        checkpoint = decode(read_file(disk, file_name(number)))
        if checkpoint is None or checkpoint.number != number:
            continue
        # The journal before the newest checkpoint may be gone, since it is removed as soon as that
        # is durable. An older one counts only if every file after it is left: else records between
        # the two would be missing without a trace.
        if number == found[0] or _has_journal_from(disk, checkpoint.position.file):
            return checkpoint
    newest = file_name(found[0]) if found else "checkpoint"
    raise Corrupt(
        newest,
        0,
        "there is no intact checkpoint whose journal still exists; restore the data directory "
        "from a copy, or keep it aside and start with an empty one",
    )


def _has_journal_from(disk: Disk, first: int) -> bool:
    files = [number for name in disk.list("journal") if (number := rounds.file_number(name))]
    present = sorted(number for number in files if number >= first)
    return bool(present) and present == list(range(first, present[-1] + 1))


def write(disk: Disk, checkpoint: Checkpoint, spare_files: int) -> None:
    """Make the checkpoint durable, then remove older ones and the journal before it.

    Up to `spare_files` journal files are kept to be reused.
    """
    # First of all, and durably: until then a start needs the older checkpoint and its journal.
    write_file(disk, file_name(checkpoint.number), encode(checkpoint))
    for number in numbers(disk):
        if number < checkpoint.number:
            disk.remove(file_name(number))
    names = disk.list("journal")
    spares = [name for name in names if name.endswith(".spare")]
    for name in spares[spare_files:]:
        disk.remove(f"journal/{name}")
    # A file that is reused has its blocks already, which halves the time of its syncs.
    room = spare_files - len(spares)
    for name in names:
        file = rounds.file_number(name)
        if file is None or file >= checkpoint.position.file:
            continue
        if room > 0:
            disk.rename(f"journal/{name}", rounds.spare_name(file))
            room -= 1
        else:
            disk.remove(f"journal/{name}")


class Flush(NamedTuple):
    """Records to be written to a segment's file, with a footer once the segment is sealed."""

    segment: SegmentId
    offset: int
    """The offset at which the durable part of the file ends; 0 if the file does not exist yet."""
    records: Sequence[Buffers]
    footer: tuple[segment.Index, Sealed] | None
    origin: bytes = b""
    """The ORIGIN, to be written before the records of a new file."""


def flush(disk: Disk, flushes: Sequence[Flush]) -> dict[SegmentId, int]:
    """Write and sync the files; returns the sizes of the files that have their footer now.

    The names become durable with the next `sync_dir`.
    """
    finished: dict[SegmentId, int] = {}
    for work in flushes:
        file = disk.open(segment.file_name(work.segment), create=True)
        try:
            end = _flush(file, work)
            # Before the checkpoint whose rows count these bytes as durable.
            file.sync()
        finally:
            file.close()
        if work.footer is not None:
            finished[work.segment] = end
    return finished


def _flush(file: File, work: Flush) -> int:
    """Write to one file; returns the offset at which the written data ends."""
    # In the same write as the first records: no file has records without its head and origin.
    buffers = [] if work.offset else [segment.encode_file_head(work.segment), work.origin]
    buffers += flat(work.records)
    if work.footer is not None:
        buffers.append(footer.encode_footer(work.segment, *work.footer))
    # Past the cache: consumers that keep up are served from memory, and these pages would displace
    # those that consumers who lag behind read.
    file.write_uncached(work.offset, buffers)
    end = work.offset + sum(map(len, buffers))
    if work.footer is not None:
        # The trailer is found from the end of the file, so nothing may follow it.
        file.truncate(end)
    return end
