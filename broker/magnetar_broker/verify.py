"""The command `magnetar verify`: checks a data directory offline and reports damage."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, replace
from tempfile import TemporaryDirectory, gettempdir
from typing import NamedTuple

import click

from magnetar_broker.base.metadata_keys import TOPICS, topic_of
from magnetar_storage.errors import Corrupt, Incomplete, StorageError, Unavailable
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import directories, layout
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.metadata.database import FILE as METADATA_FILE
from magnetar_storage.metadata.database import Database, check_log
from magnetar_storage.multi_store import belonging
from magnetar_storage.runtime.disk import ReadOnlyDisk
from magnetar_storage.runtime.whole_files import file_size
from magnetar_storage.verify.overlay import Overlay
from magnetar_storage.verify.report import Problem, Progress, Report
from magnetar_storage.verify.verify import size_of, verify
from magnetar_storage.verify.verify_objects import OpenPlace, check_objects

NAMED = 10
"""The most topics that an error names."""
SHOW_PROGRESS_FROM_BYTES = 256 << 20
COLUMNS = ("file", "offset", "segment", "entries", "topic", "what")


class ObjectChecks(NamedTuple):
    """The checks of segments that are only in stores of objects."""

    open_place: OpenPlace
    reads_all: bool
    """Whether every entry is read; otherwise only the sizes of objects are compared."""


def check(data_dir: str, with_progress: bool, objects: ObjectChecks | None = None) -> Report:
    """Check a data directory; `StorageError` if a broker uses it or it cannot be read.

    Without `objects` no store of objects is asked.
    """
    disk = ReadOnlyDisk(data_dir)
    with ExitStack() as locks:
        # Lock the first data directory before all others: then no broker makes further directories.
        locks.enter_context(closing(disk.lock(layout.LOCK_FILE)))
        for number in directories.present(disk)[1:]:
            name = directories.path_of(number, layout.LOCK_FILE)
            # promise: a directory that is in use is not checked
            locks.enter_context(closing(disk.lock(name)))
        records, damage = _log_records(disk)
        with _progress(size_of(disk) if with_progress else 0) as progress:
            report = verify(disk, records, progress)
        if objects is not None:
            check_objects(report, records or {}, *objects)
    report.problems[:0] = damage
    report.problems[:] = [_named(problem) for problem in report.problems]
    return report


def those_who_miss(data_dir: str, segments: Sequence[SegmentId]) -> str:
    """Return the topics that list some of the segments, as the end of an error; "" if unknown."""
    records, _ = _log_records(ReadOnlyDisk(data_dir)) if segments else (None, [])
    missing, names = set(segments), []
    for key, value in (records or {}).items():
        with suppress(Corrupt):  # `magnetar verify` reports it
            if not missing.isdisjoint(LogRecord.decode(key, value).listed):
                names.append(str(topic_of(key)))
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f". Topics that need them: {', '.join(sorted(names)[:NAMED])}{more}"


def _log_records(disk: ReadOnlyDisk) -> tuple[dict[str, bytes] | None, list[Problem]]:
    """Return the topics' records by key; None and the reason if the metadata is unusable."""
    if METADATA_FILE not in disk.list(""):
        return None, [
            Problem(METADATA_FILE, 0, "the file is missing: the names of all topics are lost")
        ]
    try:
        with copied_metadata(disk) as database:
            return dict(values_under(database, TOPICS)), _mismatch(disk, database.identity())
    except Corrupt as error:
        name = os.path.basename(error.file)
        return None, [Problem(name, error.offset, error.why)]


@contextmanager
def copied_metadata(disk: ReadOnlyDisk) -> Iterator[Database]:
    """Open a copy of the metadata's database; `Corrupt` if it is damaged.

    SQLite writes to the files that it opens.
    """
    files = (METADATA_FILE, f"{METADATA_FILE}-wal", f"{METADATA_FILE}-shm")
    names = [name for name in disk.list("") if name in files]
    with TemporaryDirectory(dir=_place_for(disk, names)) as directory:
        for name in names:
            shutil.copy(disk.path_of(name), directory)
        check_log(disk)
        with closing(Database(os.path.join(directory, METADATA_FILE))) as database:
            yield database


def _place_for(disk: ReadOnlyDisk, names: Sequence[str]) -> str:
    """Return a directory with room for a copy of these files, which SQLite may double.

    It is the directory for temporary files, or one in memory if that one is on the full disk.
    """
    needed = 2 * sum(file_size(disk, name) for name in names)
    usual = gettempdir()
    for place in (usual, "/dev/shm"):  # `mkdtemp` makes a directory of its own there  # nosec B108
        if os.path.isdir(place) and shutil.disk_usage(place).free > needed:
            return place
    raise Unavailable(
        f"no room in {usual} for a copy of {METADATA_FILE}: set TMPDIR to a directory with "
        f"{needed} free bytes"
    )


def _mismatch(disk: ReadOnlyDisk, metadata: Identity) -> list[Problem]:
    """Return why a start would take the metadata for that of another directory or time."""
    try:
        belonging.check(belonging.noted_offline(Overlay(disk)), metadata)
    except Incomplete as error:
        return [Problem(METADATA_FILE, 0, f"no broker starts on this directory: {error}")]
    except StorageError:
        pass  # the checks that follow report it
    return []


def values_under(database: Database, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield the keys that begin with a prefix, with their values."""
    for key in database.keys().under(prefix):
        found = database.get(key)
        if found is not None:
            yield key, found.value


def _named(problem: Problem) -> Problem:
    """Return the problem, with the topic's name in place of the metadata key."""
    return problem if problem.topic is None else replace(problem, topic=topic_of(problem.topic))


@contextmanager
def _progress(size: int) -> Iterator[Progress]:
    """Show a progress bar, on a terminal and for large directories."""
    if size < SHOW_PROGRESS_FROM_BYTES or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=size, label="checking", file=sys.stderr) as bar:
        yield bar.update


def as_json(report: Report) -> str:
    """Return the report as one JSON object."""
    problems = [asdict(problem) | {"entries": problem.entries} for problem in report.problems]
    names = ("topics", "segments", "entries", "bytes", "remote", "objects")
    counts = {name: getattr(report, name) for name in names}
    return json.dumps({"damaged": report.damaged, "checked": counts, "problems": problems})


def as_text(report: Report) -> str:
    """Return the report as text: a table of the problems, if any, and a summary."""
    lines = _table([_row(problem) for problem in report.problems]) if report.problems else []
    damaged = [problem for problem in report.problems if problem.damage]
    lost = sum(problem.entries for problem in damaged)
    verdict = f"{len(damaged)} damaged, {lost} entries lost" if damaged else "no damage"
    lines.append(
        f"{report.topics} topics, {report.segments} segments, {report.entries} entries, "
        f"{report.bytes / 1e6:.1f} MB checked: {verdict}"
    )
    if report.objects:
        lines.append(f"{report.objects} segments that are only in a store of objects checked there")
    if report.remote:
        lines.append(
            f"not checked: {report.remote} segments that are only in a store of objects (--objects)"
        )
    return "\n".join(lines)


def _row(problem: Problem) -> tuple[str, ...]:
    entries = "-"
    if problem.first_entry is not None:
        entries = f"{problem.first_entry}-{problem.last_entry}"
    segment = "-" if problem.segment is None else str(problem.segment)
    what = problem.text if problem.damage else f"(harmless) {problem.text}"
    return problem.file, str(problem.offset), segment, entries, problem.topic or "-", what


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    table = [tuple(name.upper() for name in COLUMNS), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in table
    ]
