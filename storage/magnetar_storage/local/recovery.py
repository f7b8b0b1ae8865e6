"""Rebuilding the segments from the last checkpoint and the journal after it.

A torn round is dropped after a copy of it was saved.  The intact records of a damaged round are
used, and its other records become holes of their segments: reading those entries fails, and nothing
else does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from magnetar_storage.errors import Corrupt, DiskFull, Incomplete
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import (
    index_file,
    quarantine,
    rounds,
    segment_ids,
    segment_origin,
    strangers,
)
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.checkpoint import Checkpoint, Flush, Row
from magnetar_storage.local.journal import JournalPosition
from magnetar_storage.local.journal_scan import Item, Lost, scan_of
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.record import (
    CREATE,
    DELETE,
    ENTRIES,
    HEADER,
    ORIGIN,
    SEAL,
    SEALED_BODY,
    TABLE_BYTES_PER_ENTRY,
    Buffers,
    Record,
    counts_of,
    flat,
)
from magnetar_storage.local.rounds import FIRST_ROUND_AT, RoundEntry
from magnetar_storage.runtime.disk import Disk
from magnetar_storage.runtime.whole_files import read_file, write_file
from magnetar_storage.space.reserve import STORE_FILE, Reserve

NAMED = 10
"""The most files that an error names."""
TORN_COPIES_KEPT = 8
TORN_COPY_BYTES = 16 << 20
IDS_SKIPPED = 1 << 16
"""A lost round may have created segments that topics list: their ids must not be used again.

After an unclean stop a round may be lost without a trace: if the journal is not synced, or if the
last round is damaged so that it looks torn, or as if it had never been written."""


@dataclass(frozen=True)
class Finding:
    """Damage or a cut write, for the operator to know; `text` is complete in itself."""

    file: str
    offset: int
    text: str
    segment: SegmentId | None = None
    data_lost: bool = False
    first_entry: int | None = None
    last_entry: int | None = None


class Recovered(NamedTuple):
    """The state that a store starts with."""

    checkpoint: Checkpoint
    finished: dict[SegmentId, int]
    """Sealed segments with a footer, and the bytes of their files; every other segment has a row
    in the checkpoint."""
    findings: list[Finding]
    index_files: set[SegmentId]
    """The segments that have index files, needed or not."""
    quarantined: set[SegmentId]
    """The segments whose files are in quarantine."""
    lost: dict[SegmentId, str]
    """Segments whose files are missing or too short, with the reason.  If there are any the
    checkpoint is not written: nothing may be served."""
    journal_bytes: int
    """The bytes of the journal that were read."""


@dataclass
class Rebuild:
    """The segments of a checkpoint, to which the records of the journal are applied."""

    disk: Disk
    rows: dict[SegmentId, Row]
    first_new: SegmentId
    """Segments with smaller ids and no row were finished or deleted at the checkpoint."""
    files: set[SegmentId]
    flush_bytes: int
    lost: dict[SegmentId, str] = field(default_factory=dict)
    """Segments in the checkpoint whose files are incomplete, unless the segments are deleted."""
    may_lack_deletions: bool = False
    """Whether a segment may have been deleted without a trace in the journal."""
    last_origin: bytes = b""
    """The last ORIGIN in the journal, which proves the latest state of the metadata."""
    findings: list[Finding] = field(default_factory=list)
    deleted: set[SegmentId] = field(default_factory=set)
    records: dict[SegmentId, list[Buffers]] = field(default_factory=dict)
    unwritten_bytes: int = 0
    journal_bytes: int = 0
    unused: tuple[str, int] | None = None
    """The last journal file, and the offset from which nothing in it counts."""
    next_segment: SegmentId = field(init=False)

    def __post_init__(self) -> None:
        self.next_segment = self.first_new

    def apply(self, name: str, data: bytes, item: Item) -> None:
        if isinstance(item, Lost):
            self._lost(name, item)
        elif isinstance(item, RoundEntry):
            self._damaged(name, data, item)
        elif isinstance(item, Record):
            self._take(data, item)
        elif self._is_live(item.record):
            self._take(data, item.record)
        if self.unwritten_bytes > self.flush_bytes:
            self.flush()

    def _take(self, data: bytes, record: Record) -> None:
        self.next_segment = max(self.next_segment, segment_ids.following(record.segment))
        APPLY[record.kind](self, data, record)

    def _is_live(self, stray: Record) -> bool:
        """Return whether a record from a damaged stretch may be applied.

        It may be left from the file's last use: then it is of a finished or deleted segment, or
        of entries that are known already.  A DELETE is never applied, which is safe: `verify`
        finds a segment too many.
        """
        known = stray.segment in self.rows or stray.segment >= self.first_new
        return known and stray.kind != DELETE

    def flush(self) -> None:
        """Append the gathered records to the durable part of the segments' files."""
        flushes = []
        # An incomplete file would seem complete afterwards.
        # promise[in self.lost if -> in () if]: a refused start leaves a lacking file as it is
        kept = {number: self.records.pop(number) for number in self.lost if number in self.records}
        for number, records in self.records.items():
            row = self.rows[number]
            flushes.append(Flush(number, row.length, records, None))
            size = sum(map(len, flat(records)))
            # The first write of a file puts the head before the records.
            row.length = (row.length or segment.RECORDS_AT) + size
        checkpoints.flush(self.disk, flushes)
        self.records, self.unwritten_bytes = kept, 0

    def create(self, data: bytes, record: Record) -> None:
        self.rows.setdefault(record.segment, Row())

    def entries(self, data: bytes, record: Record) -> None:
        row = self.rows.setdefault(record.segment, Row())
        if record.first < row.entries or row.sealed:
            # A repeated record: its entries are known already.
            return
        # Records between were damaged beyond recognition: their entries keep their positions.
        self._skip_to(row, record.first)
        # A later record of the segment proves that none of its entries is missing after a lost
        # stretch.
        row.suspect = ""
        self._add(
            record.segment, record.n, sum(counts_of(data, record)), data[record.at : record.end]
        )

    def origin(self, data: bytes, record: Record) -> None:
        row = self.rows.setdefault(record.segment, Row())
        self.last_origin = data[record.at : record.end]
        # Else it is a repeated record: it is in the file, or before its entries.
        if not row.entries and not row.length and record.segment not in self.records:
            self.records[record.segment] = [data[record.at : record.end]]
            self.unwritten_bytes += record.size

    def proven(self, identity: Identity) -> Identity:
        """Return the least state of the metadata that a checkpoint and its journal prove."""
        named = segment_origin.of(self.last_origin)
        if named is not None:
            # promise: what a segment proves of the metadata is not forgotten with the journal
            identity = identity.and_later(named.identity)
        return identity

    def seal(self, data: bytes, record: Record) -> None:
        row = self.rows.get(record.segment)
        if row is None:
            return
        body = data[record.at + HEADER.size : record.end]
        # The seal has the true totals, whatever damaged records were counted as.
        row.entries, row.messages, row.size = SEALED_BODY.unpack(body)
        row.sealed, row.suspect = True, ""

    def delete(self, data: bytes, record: Record) -> None:
        self.rows.pop(record.segment, None)
        self.records.pop(record.segment, None)
        # promise: a file is not missed whose deletion is in the journal
        self.lost.pop(record.segment, None)
        self.deleted.add(record.segment)

    def _skip_to(self, row: Row, entry: int) -> None:
        """Count entries that the journal has lost as one message each; reading them fails."""
        # The real number was in the lost records; no backlog may be too small for what can be read.
        row.messages += entry - row.entries
        row.entries = entry

    def _add(self, number: SegmentId, n: int, messages: int, record: bytes) -> None:
        row = self.rows[number]
        row.entries += n
        row.messages += messages
        row.size += len(record) - HEADER.size - TABLE_BYTES_PER_ENTRY * n
        self.records.setdefault(number, []).append(record)
        self.unwritten_bytes += len(record)

    def _damaged(self, name: str, data: bytes, place: RoundEntry) -> None:
        """Copy damaged bytes to the segment as a hole, which fails its checksum."""
        number = place.segment
        self.next_segment = max(self.next_segment, segment_ids.following(number))
        # Created since the checkpoint, by a record that is damaged, too.
        if number not in self.rows and number not in self.files:
            self.rows[number] = Row()
        row = self.rows.get(number)
        # A damaged record without entries may have been a deletion: then the file of its segment is
        # missing for a good reason.
        self.may_lack_deletions = self.may_lack_deletions or not place.n
        if row is None or row.sealed or not place.n:
            self._find(name, place.at, "a record without entries is damaged", number)
            return
        first, last = row.entries, row.entries + place.n - 1
        text = f"entries {first} to {last} are damaged; they cannot be read, all others can"
        self._find(name, place.at, text, number, (first, last))
        # As long as the record was: the blocks after it stay where the index places them.
        self._add(number, place.n, place.n, data[place.at : place.at + place.size])

    def _lost(self, name: str, lost: Lost) -> None:
        """Note that any open segment may have lost its last entries, until a later record disproves
        it.
        """
        text = (
            f"{name} at byte {lost.at}: {lost.end - lost.at} bytes are damaged, and whose entries "
            "they held is unknown"
        )
        self.findings.append(Finding(name, lost.at, text, None, data_lost=True))
        self.may_lack_deletions = True
        for row in self.rows.values():
            if not row.sealed:
                row.suspect = text
        self.skip_ids()

    def report_lost(self) -> None:
        """Continue without the data that files lack; its entries count as damaged from now on."""
        for number, why in self.lost.items():
            name = segment.file_name(number)
            if number in self.rows:
                _extend(self.disk, name, self.rows[number].length)
            text = f"{name}: {why}; if a topic lists segment {number}, its entries are lost"
            self.findings.append(Finding(name, 0, text, number, data_lost=True))
        self.lost.clear()

    def skip_ids(self) -> None:
        """Skip the ids of segments that a lost round may have created."""
        self.next_segment = segment_ids.following(self.next_segment, IDS_SKIPPED)

    def _find(
        self,
        name: str,
        at: int,
        what: str,
        number: SegmentId,
        lost: tuple[int, int] | None = None,
    ) -> None:
        """Add a finding about a segment; `lost` are the first and last entry that it has lost."""
        text = f"{name} at byte {at}: segment {number}: {what}"
        self.findings.append(
            Finding(name, at, text, number, lost is not None, *(lost or (None, None)))
        )


class _Deletions(Rebuild):
    """Reads the journal for the segments that it deletes, and for nothing else."""

    def _take(self, data: bytes, record: Record) -> None:
        if record.kind == DELETE:
            self.deleted.add(record.segment)

    def _damaged(self, name: str, data: bytes, place: RoundEntry) -> None:
        """Ignore the record: it does not count as a deletion."""

    def _lost(self, name: str, lost: Lost) -> None:
        """Ignore the stretch: deletions in it cannot be recognized."""


def _extend(disk: Disk, name: str, size: int) -> None:
    """Extend a file, which may be missing, with zeros to the size in a checkpoint."""
    file = disk.open(name, create=True)
    try:
        file.truncate(size)
        file.sync()
    finally:
        file.close()


APPLY = {
    CREATE: Rebuild.create,
    ORIGIN: Rebuild.origin,
    ENTRIES: Rebuild.entries,
    SEAL: Rebuild.seal,
    DELETE: Rebuild.delete,
}


def recover(disk: Disk, limits: Limits, directory: int = 0) -> Recovered:
    """Apply the journal and write a checkpoint; may be interrupted and repeated.

    `directory` is the number of the store directory.  If the disk is full, spare journal files and
    the reserve are removed, the unused part of the last journal file is freed, and the journal is
    applied and removed file by file.
    """
    try:
        return _recover(disk, limits, directory)
    except DiskFull:
        # Nothing was changed before the space ran out that a second attempt does not repeat.
        Reserve(disk, STORE_FILE).give()
        return _recover_by_files(disk, limits, directory)


def _recover_by_files(disk: Disk, limits: Limits, directory: int) -> Recovered:
    """Apply the journal file by file: each file frees the space that the next one needs."""
    start = checkpoints.read_newest(disk)
    # The name of the checkpoint that replaces the files before it may not be durable.
    disk.sync_dir("")
    for name in disk.list("journal"):
        number = rounds.file_number(name)
        if name.endswith(".spare") or (number is not None and number < start.position.file):
            disk.remove(f"journal/{name}")
    # First a look at all files: a file that is deleted in a later one may be missing already.
    deletions = _Deletions(disk, {}, start.next_segment, set(), limits.write_behind_bytes)
    _replay(disk, start.position, deletions, limits.journal_is_synced)
    if deletions.unused is not None:
        _truncate(disk, *deletions.unused)
    _drop_uncounted(disk, start)
    findings: list[Finding] = []
    read = 0
    while True:
        # Each pass applies one file and writes a checkpoint, which removes that file.
        found = _recover(disk, limits, directory, deletions.deleted)
        findings += found.findings
        read += found.journal_bytes
        if found.lost or not _journal_from(disk, found.checkpoint.position.file):
            return found._replace(findings=findings, journal_bytes=read)


def _drop_uncounted(disk: Disk, start: Checkpoint) -> None:
    """Truncate segments' files to the part that counts, such as after a failed attempt: what
    follows is in the journal, too."""
    for name, size in disk.sizes("segments").items():
        number = segment.segment_of(name)
        if number is None or (number not in start.rows and number < start.next_segment):
            continue  # not a segment's file, or of a finished segment
        length = start.rows[number].length if number in start.rows else 0
        if size > length:
            _truncate(disk, segment.file_name(number), length)


def _truncate(disk: Disk, name: str, size: int) -> None:
    file = disk.open(name)
    try:
        file.truncate(size)
    finally:
        file.close()


def _recover(
    disk: Disk, limits: Limits, directory: int, deleted: set[SegmentId] | None = None
) -> Recovered:
    """Apply the journal; only its first file if `deleted` has all segments that it deletes."""
    by_files = deleted is not None
    start = checkpoints.read_newest(disk)
    # promise: a store directory is not used in the place of another
    _check_directory(start, directory)
    names = disk.sizes("segments")
    files = {
        number: size
        for name, size in names.items()
        if (number := segment.segment_of(name)) is not None
    }
    # promise: segments and journals of another data directory are refused
    strangers.check(disk, start, files)
    index_files = {number for name in names if (number := index_file.segment_of(name)) is not None}
    lost = lost_files(start, files)
    for number in deleted or ():
        # promise: a file is not missed whose deletion a later file of the journal has
        lost.pop(number, None)
    rebuild = Rebuild(
        disk, start.rows, start.next_segment, set(files), limits.write_behind_bytes, lost
    )
    position = _replay(disk, start.position, rebuild, limits.journal_is_synced, by_files)
    # Missing files stop the start, unless deletions may be missing, too: then nobody can tell
    # whether the files were deleted, and a refusal would be for ever.
    given_up = bool(rebuild.lost) and (rebuild.may_lack_deletions or not limits.refuse_missing)
    if given_up:
        rebuild.report_lost()
    gone = rebuild.deleted | rebuild.lost.keys()
    finished = {n: size for n, size in files.items() if n not in rebuild.rows and n not in gone}
    # promise[without and not rebuild.lost]: a refused start keeps the journal
    if (position != start.position or given_up) and not rebuild.lost:
        # promise: what the journal held is flushed before the checkpoint that replaces it
        rebuild.flush()
        if rebuild.deleted:
            _make_durable(disk, rounds.file_name(position.file - 1))
        for number in rebuild.deleted:
            disk.remove(segment.file_name(number))
        # Names of new files, and removals, before the checkpoint that counts on them.
        disk.sync_dir("segments")
        start = Checkpoint(
            start.number + 1, position, rebuild.next_segment, rebuild.rows, finished,
            rebuild.proven(start.identity),
        )  # fmt: skip
        # Before the next journal file exists, since that proves that the one before was complete.
        checkpoints.write(disk, start, 0 if by_files else limits.spare_journal_files)
    # A file in both places was taken out of quarantine when the process ended.
    quarantined = quarantine.present(disk) - files.keys()
    return Recovered(
        start, finished, rebuild.findings, index_files, quarantined, rebuild.lost,
        rebuild.journal_bytes,
    )  # fmt: skip


def missing_files(lost: Mapping[SegmentId, str]) -> Incomplete:
    """Return the error of a start that lacks files of the last checkpoint."""
    some = [f"{segment.file_name(number)} ({why})" for number, why in sorted(lost.items())]
    more = f", and {len(some) - NAMED} more" if len(some) > NAMED else ""
    error = Incomplete(
        f"the data directory lacks {len(some)} files of segments or parts of them: "
        f"{', '.join(some[:NAMED])}{more}. No data was changed. Put them back, or restore a "
        "snapshot (docs/backup.md); or give up what was in them: magnetar repair DATA_DIR"
    )
    error.segments = tuple(sorted(lost))
    return error


def lost_files(start: Checkpoint, files: Mapping[SegmentId, int]) -> dict[SegmentId, str]:
    """Return the segments of a checkpoint whose file is missing or too short, with the reason.

    `files` has the sizes of the existing files.
    """
    wanted = {number: row.length for number, row in start.rows.items() if row.length}
    lost = {}
    for number, size in (start.finished | wanted).items():
        found = files.get(number)
        if found is None:
            lost[number] = "the file is missing"
        elif found < size:
            lost[number] = f"the file has {found} of {size} bytes"
    return lost


def _check_directory(start: Checkpoint, directory: int) -> None:
    """Refuse a store directory that is in the place of another."""
    found = segment_ids.directory_of(start.next_segment)
    if found != directory:
        raise Corrupt(
            checkpoints.file_name(start.number),
            0,
            f"this is store directory {found}, in the place of {directory}: move it back to where "
            "it was",
        )


def _make_durable(disk: Disk, name: str) -> None:
    """Write the last journal file again: its last round was read, but may not be on the disk.

    All rounds before it are, since each is written when the one before is durable.  A sync is not
    enough: after a failed sync, which may be why the process was stopped, the system considers data
    as written that could not be.  A segment must not be deleted before the record that deletes it
    is durable.
    """
    data = read_file(disk, name)
    file = disk.open(name)
    try:
        file.write(0, [data])
        file.sync()
    finally:
        file.close()


def _journal_from(disk: Disk, first: int) -> list[int]:
    """Return the numbers of the journal files from `first` on, in order."""
    files = [number for name in disk.list("journal") if (number := rounds.file_number(name))]
    return sorted(number for number in files if number >= first)


def _replay(
    disk: Disk,
    start: JournalPosition,
    rebuild: Rebuild,
    journal_is_synced: bool,
    first_only: bool = False,
) -> JournalPosition:
    """Apply the journal from `start` on, or its first file only; returns where to continue."""
    files = _journal_from(disk, start.file)
    # Files are removed from the front only: a gap was made by somebody else, and records after it
    # must not be applied to a state that lacks those before.
    if files != list(range(start.file, start.file + len(files))) or (start.offset and not files):
        raise Corrupt(
            rounds.file_name(start.file),
            start.offset,
            "a journal file is missing; restore it, or the data directory, from a copy",
        )
    # Two files at most are in memory: the one that is read, and the next one, whose head tells
    # where it ends.
    contents = [read_file(disk, rounds.file_name(number)) for number in files[:1]]
    last_round, ended = start.round, True
    for number in files[:1] if first_only else files:
        data = contents.pop()
        following = number + 1 in files
        if following:
            contents.append(read_file(disk, rounds.file_name(number + 1)))
        name = rounds.file_name(number)
        rebuild.journal_bytes += len(data)
        at = start.offset if number == start.file and start.offset else FIRST_ROUND_AT
        scan = scan_of(number, data, contents[0] if following else None, last_round)
        if scan is None:
            ended = False
            continue
        for item in scan.items(at):
            rebuild.apply(name, data, item)
        last_round, ended = scan.last_round, scan.ended
        if scan.clean_at is not None:
            rebuild.unused = name, scan.clean_at
        if scan.torn_at is not None:
            rebuild.findings.append(_save_torn(disk, name, data, scan.torn_at))
    if not ended:
        # The rest of a file before the last one may follow: then more ids are skipped than needed.
        rebuild.skip_ids()
        rebuild.may_lack_deletions = rebuild.may_lack_deletions or not journal_is_synced
    return JournalPosition(number + 1, 0, last_round) if files else start


def _save_torn(disk: Disk, name: str, data: bytes, at: int) -> Finding:
    """Save a copy of a torn round, of which nothing was confirmed, for the operator."""
    # A copy, since the round may be what an operator needs to find out about a failing disk.
    copy = name.replace(".wal", ".torn")
    cut = f"{name} at byte {at}: the last write was cut short; nothing of it had been confirmed, "
    try:
        write_file(disk, copy, data[at : at + TORN_COPY_BYTES].rstrip(b"\0"))
    except DiskFull:
        disk.remove(f"{copy}.tmp")
        return Finding(name, at, f"{cut}and there was no room for a copy")
    kept = [f"journal/{file}" for file in disk.list("journal") if file.endswith(".torn")]
    for old in kept[:-TORN_COPIES_KEPT]:
        disk.remove(old)
    return Finding(name, at, f"{cut}a copy is in {copy}")
