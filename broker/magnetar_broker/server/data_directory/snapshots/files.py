"""The files of snapshots: gathered in the data directory, then linked or copied out of it.

Finished segments never change: a snapshot has hard links to them, or copies if it is on another
file system.  Of unfinished segments, the part that the checkpoint counts is copied.  Everything is
synced.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import FileIO
from threading import Event

from magnetar_storage.interfaces import SegmentId
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import directories, layout
from magnetar_storage.local import segment_file as segment
from magnetar_storage.local.checkpoint import Checkpoint
from magnetar_storage.runtime.disk import LocalDisk, ReadOnlyDisk
from magnetar_storage.runtime.native_file import NATIVE_FILE
from magnetar_storage.runtime.whole_files import write_file

MANIFEST = "SNAPSHOT"
"""The file that describes a snapshot; a broker does not need it."""
GATHERED = "snapshot-"
"""The prefix of a directory, in a store directory, with the files that a snapshot is made of."""
UNFINISHED = ".unfinished"
"""The suffix of the directory of an incomplete snapshot."""
MARK = "unfinished"
"""The file in the journal's directory that marks an incomplete copy."""
PIECE_BYTES = 8 << 20
"""The number of bytes that are copied before a sync: the journal's syncs must not wait for more."""


@dataclass(frozen=True)
class CopiedFiles:
    """The files copied into a snapshot, and their bytes."""

    files: int
    bytes: int
    copied_bytes: int
    """The bytes that were copied; the rest is shared with the data directory by hard links."""

    def __add__(self, other: "CopiedFiles") -> "CopiedFiles":
        return CopiedFiles(
            self.files + other.files,
            self.bytes + other.bytes,
            self.copied_bytes + other.copied_bytes,
        )


@dataclass(frozen=True)
class Manifest:
    """The description of a snapshot, stored in its file `MANIFEST`."""

    name: str
    created_ms: int
    """The time of the request: everything acknowledged before is in the snapshot."""
    version: str
    files: int
    bytes: int
    copied_bytes: int


class CheckpointFiles:
    """The files of one store directory as they were at a checkpoint."""

    def __init__(self, store: str, token: str, stopped: Event) -> None:
        """`store` is the store directory, `token` is the snapshot's; `stopped` ends the copying."""
        self._stopped = stopped
        self._store = store
        self._path = os.path.join(store, f"{GATHERED}{token}")
        self._checkpoint: Checkpoint | None = None

    def take(self, checkpoint: Checkpoint) -> None:
        """Link all segments; no segment may be written or removed during the call."""
        source = os.path.join(self._store, "segments")
        os.makedirs(self._path)
        for name in os.listdir(source):
            if segment.segment_of(name) is not None:
                os.link(os.path.join(source, name), os.path.join(self._path, name))
        self._checkpoint = checkpoint

    def copy(self, target: str) -> CopiedFiles:
        """Make a complete and durable store directory at `target`, without the file FORMAT."""
        assert self._checkpoint is not None
        os.makedirs(os.path.join(target, "segments"))
        os.makedirs(os.path.join(target, "journal"), exist_ok=True)
        copied = CopiedFiles(0, 0, 0)
        for name in sorted(os.listdir(self._path)):
            file = os.path.join(self._path, name)
            counting = self._counting(name)
            if counting != 0:
                copied += _put(
                    file, os.path.join(target, "segments", name), counting, self._stopped
                )
            os.unlink(file)
        disk = LocalDisk(target)
        write_file(
            disk,
            checkpoints.file_name(self._checkpoint.number),
            checkpoints.encode(self._checkpoint),
        )
        for folder in ("segments", "journal", ""):
            disk.sync_dir(folder)
        return copied

    def remove(self) -> None:
        """Remove the files that were gathered."""
        remove_tree(self._path)

    def _counting(self, name: str) -> int | None:
        """Return the bytes of an unfinished segment's file that count; None for a finished one."""
        assert self._checkpoint is not None
        number: SegmentId | None = segment.segment_of(name)
        row = None if number is None else self._checkpoint.rows.get(number)
        return None if row is None else row.length


def _put(source: str, target: str, length: int | None, stopped: Event) -> CopiedFiles:
    """Write a finished file, or the first `length` bytes of a growing one, to `target`, synced."""
    if length is None:  # promise[always]: a snapshot copies files that still grow
        size = os.path.getsize(source)
        with suppress(OSError):  # another file system, or one without links
            os.link(source, target)
            sync(target)
            return CopiedFiles(1, size, 0)
        length = size
    copy_file(source, target, length, stopped)
    return CopiedFiles(1, length, length)


def copy_file(source: str, target: str, length: int, stopped: Event) -> None:
    """Copy the first `length` bytes of a file to a new file, synced; OSError if there are fewer."""
    with open(source, "rb", 0) as original, open(target, "xb", 0) as copy:
        left = length
        while left:
            if stopped.is_set():
                raise InterruptedError("the broker stops")
            data = original.read(min(left, PIECE_BYTES))
            if not data:
                raise OSError(f"{source} is shorter than {length} bytes")
            _write_all(copy, data)
            NATIVE_FILE.sync_all(copy.fileno())
            left -= len(data)
        NATIVE_FILE.sync_all(copy.fileno())


def _write_all(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def sync(path: str) -> None:
    """Make a file or directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        NATIVE_FILE.sync_all(descriptor)
    finally:
        os.close(descriptor)


def begin(path: str) -> None:
    """Create an incomplete data directory: no broker starts on it until it has a FORMAT.

    A broker refuses a directory that has a journal but no FORMAT.
    """
    os.makedirs(os.path.join(path, "journal"), exist_ok=True)
    with open(os.path.join(path, "journal", MARK), "xb"):
        pass


def end(path: str) -> None:
    """Mark a data directory as complete; the caller has made its content durable, FORMAT last."""
    os.unlink(os.path.join(path, "journal", MARK))
    sync(os.path.join(path, "journal"))


def complete(
    unfinished: str, finished: str, formats: dict[int, layout.Format], manifest: Manifest
) -> None:
    """Make a snapshot of the files at `unfinished`; on return it is durable under its name.

    `formats` are the formats of its store directories.  Before the call nothing takes the files for
    a data directory: they have no FORMAT, and another name.
    """
    sync(os.path.join(unfinished, "metadata.db"))
    disk = LocalDisk(unfinished)
    write_file(disk, MANIFEST, json.dumps(asdict(manifest)).encode() + b"\n")
    for number in sorted(formats, reverse=True):
        layout.write_format(directories.disk_of(disk, number), formats[number])
    if len(formats) > 1:
        disk.sync_dir(directories.WORKERS)
    disk.sync_dir("")
    end(unfinished)
    os.rename(unfinished, finished)
    sync(os.path.dirname(finished))


def manifest_of(path: str) -> Manifest | None:
    """Return the description of the snapshot at a path; None if there is no snapshot."""
    try:
        with open(os.path.join(path, MANIFEST), "rb") as file:
            return Manifest(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def remove_manifest(path: str) -> None:
    """Turn the snapshot at a path into an ordinary data directory."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(path, MANIFEST))
        sync(path)


def remove_rests(data_dir: str, snapshots: str) -> None:
    """Remove the files that are left of snapshots whose making was interrupted."""
    disk = ReadOnlyDisk(data_dir)
    for number in directories.present(disk):
        store = disk.path_of(directories.name_of(number))
        for name in _names(store):
            if name.startswith(GATHERED):
                remove_tree(os.path.join(store, name))
    for name in _names(snapshots):
        if name.endswith(UNFINISHED):
            remove_tree(os.path.join(snapshots, name))


def _names(directory: str) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from os.listdir(directory)


def remove_tree(path: str) -> None:
    """Remove a directory and its content, as far as possible."""
    import shutil  # noqa: PLC0415 (which is a megabyte that a start does not need)

    shutil.rmtree(path, ignore_errors=True)
