"""Segments that no topic lists, kept in `quarantine/` (docs/formats.md, "Quarantine").

Such a file belongs to no segment of the store.  It is complete, with its footer, so that moving it
back to `segments/` restores the segment.

The directory also has copies of damaged entries that were set aside, for operators and tools."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from magnetar_storage.errors import NoSegment
from magnetar_storage.interfaces import DamagedEntries, Sealed, SegmentId, SegmentOrigin
from magnetar_storage.local import segment_file, segment_origin
from magnetar_storage.local.file_names import number_in
from magnetar_storage.runtime.disk import Disk, ReadableDisk
from magnetar_storage.runtime.whole_files import file_size, read_file, write_file

DIRECTORY = "quarantine"
DAMAGED = ".damaged"
"""The suffix of files with the bytes of damaged entries."""


def present(disk: ReadableDisk) -> set[SegmentId]:
    """Return the segments whose files are in quarantine."""
    names = disk.list(DIRECTORY)
    return {number for name in names if (number := segment_file.segment_of(name)) is not None}


def put(disk: Disk, segments: Mapping[SegmentId, Sealed], why: str, now_ms: int) -> None:
    """Move the files of finished segments to quarantine, and report why; durable on return.

    No checkpoint and no journal may list them as unfinished: a start would write them again.
    """
    _make(disk)
    # The report comes first: a file without a report is kept for ever.
    named = {number: segment_origin.read(disk, number) for number in segments}
    origins = {number: one.origin for number, one in named.items() if one is not None}
    report = _report(now_ms, why, segments=_listed(segments, origins))
    write_file(disk, _report_name(disk, now_ms), report)
    for number in segments:
        disk.link(segment_file.file_name(number), _name(number))
    # promise: a segment loses its name only when the other one is durable
    disk.sync_dir(DIRECTORY)
    # Only when every file has its other name durably.
    for number in segments:
        disk.remove(segment_file.file_name(number))
    disk.sync_dir("segments")


def put_damaged(disk: Disk, entries: Sequence[DamagedEntries], why: str, now_ms: int) -> None:
    """Write the bytes of damaged entries with a report of them; durable on return."""
    _make(disk)
    listed = [
        {
            "log": one.log,
            "segment": one.segment,
            "first_entry": one.first,
            "last_entry": one.last,
            "why": one.why,
            "file": damaged_name(one.segment, one.first, one.last),
            "bytes": len(one.data),
        }
        for one in entries
    ]
    report = _report(now_ms, why, segments=[], damaged=listed)
    write_file(disk, _report_name(disk, now_ms), report)
    for one in entries:
        write_file(disk, f"{DIRECTORY}/{damaged_name(one.segment, one.first, one.last)}", one.data)


def damaged_name(segment: SegmentId, first: int, last: int) -> str:
    """Return the name of the file with the bytes of damaged entries."""
    return f"{segment:016x}-{first}-{last}{DAMAGED}"


def _make(disk: Disk) -> None:
    disk.make_dir(DIRECTORY)
    disk.sync_dir("")


def take_back(disk: Disk, number: SegmentId) -> int:
    """Move a segment's file back, durably; returns its size.  `NoSegment` if there is no file."""
    base = segment_file.base_name(number)
    if base in disk.list(DIRECTORY):
        disk.link(_name(number), segment_file.file_name(number))
        disk.sync_dir("segments")  # promise: a segment that came back survives a power loss
        disk.remove(_name(number))
        disk.sync_dir(DIRECTORY)
    elif base not in disk.list("segments"):  # else the file was not moved, or is back already
        raise NoSegment(f"segment {number} was removed from {DIRECTORY}")
    return file_size(disk, segment_file.file_name(number))


def expire(disk: Disk, before_ms: int) -> set[SegmentId]:
    """Delete files quarantined before `before_ms`, with their reports; returns the segments.

    A file that no report names is kept, since the time of its quarantine is unknown.
    """
    reports = {name: _read(disk, name) for name in disk.list(DIRECTORY) if _time_of(name)}
    young = [report for report in reports.values() if report["at_ms"] >= before_ms]
    later = {number for report in young for number in _in(report)}
    kept = {file for report in young for file in _damaged_in(report)}
    here, expired = present(disk), set[SegmentId]()
    for name, report in reports.items():
        if report["at_ms"] < before_ms:
            # A segment that was taken back and set aside again is named by both reports.
            # promise[without - later]: a segment is kept from the last time that it was set aside
            expired |= (doomed := (_in(report) - later) & here)
            for number in sorted(doomed):
                disk.remove(_name(number))
            for file in sorted((_damaged_in(report) - kept) & set(disk.list(DIRECTORY))):
                disk.remove(f"{DIRECTORY}/{file}")
            # Last: after a crash the files that are left are still named.
            disk.sync_dir(DIRECTORY)
            disk.remove(f"{DIRECTORY}/{name}")
    return expired


def _name(number: SegmentId) -> str:
    return f"{DIRECTORY}/{segment_file.base_name(number)}"


def _report_name(disk: ReadableDisk, now_ms: int) -> str:
    """Return a name that sorts by time, and that no other report has."""
    taken = set(disk.list(DIRECTORY))
    while (name := f"{now_ms:016x}.json") in taken:
        now_ms += 1
    return f"{DIRECTORY}/{name}"


def _time_of(name: str) -> int | None:
    return number_in(name, suffix=".json")


def _report(now_ms: int, why: str, **listed: object) -> bytes:
    at = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    fields = {"at": at, "at_ms": now_ms, "why": why} | listed
    return json.dumps(fields, indent=1).encode() + b"\n"


def _listed(
    segments: Mapping[SegmentId, Sealed], origins: Mapping[SegmentId, SegmentOrigin]
) -> list[dict[str, object]]:
    return [
        {
            "segment": number,
            "file": segment_file.base_name(number),
            "entries": end.entries,
            "messages": end.messages,
            "bytes": end.size,
        }
        | ({"log": origins[number].log, "kind": origins[number].kind} if number in origins else {})
        for number, end in sorted(segments.items())
    ]


def _read(disk: ReadableDisk, name: str) -> dict[str, Any]:
    """Read a report; a report that cannot be read names nothing, and never expires."""
    try:
        report = json.loads(read_file(disk, f"{DIRECTORY}/{name}"))
        _in(report), _damaged_in(report)
        if isinstance(report["at_ms"], int):
            return dict(report)
    except (ValueError, TypeError, KeyError):
        pass  # an operator has edited it
    return {"at_ms": 1 << 62, "segments": []}


def _in(report: dict[str, Any]) -> set[SegmentId]:
    return {int(one["segment"]) for one in report["segments"]}


def _damaged_in(report: dict[str, Any]) -> set[str]:
    """Return the files of damaged entries that a report names, in this directory only."""
    files = {str(one["file"]) for one in report.get("damaged", ())}
    return {file for file in files if file.endswith(DAMAGED) and "/" not in file}
