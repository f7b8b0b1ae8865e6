"""Whether the parts of a data directory belong together (docs/formats.md, "Identity").

The metadata counts the starts and its own writes, and every checkpoint notes both counts.  So a
checkpoint proves what the metadata must know.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from magnetar_storage.errors import Incomplete
from magnetar_storage.identity import UNKNOWN, Identity
from magnetar_storage.local import checkpoint as checkpoints
from magnetar_storage.local import directories, layout, limits, recovery
from magnetar_storage.metadata.database import FILE as METADATA_FILE
from magnetar_storage.runtime.disk import Disk, Lock

WAYS_OUT = (
    "No data was changed. Put the right one back, or restore a snapshot of the whole directory "
    "(docs/backup.md)"
)
GIVING_UP = replace(limits.DEFAULT, refuse_missing=False)
"""Limits that open a store even if files of segments are missing."""
REBUILT = f", or have {METADATA_FILE} rebuilt from the other files: magnetar repair DATA_DIR"


class Noted(NamedTuple):
    """The identities in all parts of a data directory except its metadata."""

    parts: dict[str, Identity]
    """The identities in FORMATs and checkpoints, by file name within the data directory."""
    is_used: bool
    """Whether the directory has ever held data."""

    @property
    def directory(self) -> bytes:
        """The id of the data directory; zeros before it gets one."""
        return self.parts[layout.FORMAT_FILE].directory


def noted(disk: Disk) -> Noted:
    """Read parts as `all_but_metadata` does; `Incomplete` if a used directory has no metadata."""
    result = all_but_metadata(disk)
    has_metadata = METADATA_FILE in disk.list("")
    # promise[result.is_used or -> False or]: a used directory without metadata is refused
    if not has_metadata and (result.is_used or result.directory != UNKNOWN.directory):
        raise Incomplete(
            f"{METADATA_FILE} is missing: it has the names of all topics and what belongs to "
            f"them. {WAYS_OUT}{REBUILT}"
        )
    return result


def all_but_metadata(disk: Disk) -> Noted:
    """Read all parts of a data directory but its metadata; create the files of a new directory.

    The caller holds the lock, and no process has the directory open.
    """
    layout.prepare(disk)
    found = directories.present(disk)
    directories.check(disk, found)
    parts: dict[str, Identity] = {}
    is_used = False
    for number in found:
        store = directories.disk_of(disk, number)
        with directories.named(number):
            layout.prepare(store, number)
            id_here = layout.format_of(store).directory
            newest = checkpoints.read_newest(store)
        parts[directories.path_of(number, layout.FORMAT_FILE)] = Identity(id_here)
        name = directories.path_of(number, checkpoints.file_name(newest.number))
        parts[name] = newest.identity
        is_used = is_used or newest.number > 0 or bool(store.list("journal"))
    return Noted(parts, is_used)


def noted_offline(overlay: Disk) -> Noted:
    """Read a directory that is not open as `all_but_metadata` does, and apply its journals.

    The journals are applied to the files, so the disk must be an overlay that drops changes.
    """
    result = all_but_metadata(overlay)
    for number in directories.present(overlay):
        store = directories.disk_of(overlay, number)
        with directories.named(number):
            recovered = recovery.recover(store, GIVING_UP, number)
        journal = directories.path_of(number, "journal")
        result.parts[journal] = recovered.checkpoint.identity
    return result


def take(disk: Disk, workers: int | None = None) -> tuple[Lock, Noted]:
    """Lock the data directory, and read its parts as `noted` does.

    With `workers`, store directories for that number of workers exist on return.
    """
    lock = disk.lock(layout.LOCK_FILE)
    try:
        if workers is not None:
            directories.prepare(disk, workers)
        return lock, noted(disk)
    except BaseException:
        lock.close()
        raise


def check(found: Noted, metadata: Identity) -> None:
    """Raise `Incomplete` if the metadata belongs to another data directory or is an older copy."""
    if metadata.directory == UNKNOWN.directory != found.directory:
        raise Incomplete(
            f"{METADATA_FILE} is new or of another data directory: it has no id, and the others "
            f"have {found.directory.hex()}. {WAYS_OUT}{REBUILT}"
        )
    # A start gives FORMAT the id before it changes metadata, and creates the journal afterwards.
    is_new = not found.is_used and found.directory == UNKNOWN.directory
    if metadata.directory != UNKNOWN.directory and metadata.revision and is_new:
        raise Incomplete(
            f"there is nothing but {METADATA_FILE}: journal and segments of the data directory "
            f"{metadata.directory.hex()} are missing. {WAYS_OUT}"
        )
    compare(found.parts, metadata)


def compare(parts: Mapping[str, Identity], metadata: Identity) -> None:
    """Raise `Incomplete` if a part has another data directory, or is newer than the metadata."""
    for name, part in parts.items():
        if part.directory not in (UNKNOWN.directory, metadata.directory):
            raise Incomplete(
                f"{name} and {METADATA_FILE} are of different data directories, "
                f"{part.directory.hex()} and {metadata.directory.hex()}. {WAYS_OUT}{REBUILT}"
            )
        # promise[part.starts > metadata.starts or -> ]: metadata of fewer starts are refused
        # promise[without or part.revision > metadata.revision]: metadata of fewer changes are
        #   refused
        if part.starts > metadata.starts or part.revision > metadata.revision:
            raise Incomplete(
                f"{METADATA_FILE} is older than {name}: it has {metadata.revision} changes of "
                f"{metadata.starts} starts, and lacks later ones up to change {part.revision} of "
                f"start {part.starts}. {WAYS_OUT}{REBUILT}"
            )


def mark(disk: Disk, directory: bytes) -> None:
    """Record the id and the store directories in each FORMAT that lacks them."""
    found = directories.present(disk)
    # The FORMAT of the data directory is written last: its id proves that all have the id.
    for number in reversed(found):
        store = directories.disk_of(disk, number)
        stores = () if number else tuple(found)
        what = layout.Format(layout.PRESENT, directory, stores)
        if layout.format_of(store) != what:
            layout.write_format(store, what)
