"""Copies a snapshot to a new data directory."""

import os
from contextlib import closing
from threading import Event

from magnetar_broker.server.data_directory import addresses
from magnetar_broker.server.data_directory.object_names import mark_as_copy
from magnetar_broker.server.data_directory.snapshots.files import (
    MANIFEST,
    begin,
    copy_file,
    end,
    manifest_of,
    sync,
)
from magnetar_storage.errors import Unavailable
from magnetar_storage.local import layout
from magnetar_storage.runtime.disk import LocalDisk, ReadOnlyDisk

LAST = layout.FORMAT_FILE
LEFT_OUT = (layout.LOCK_FILE, addresses.FILE, MANIFEST)


def restored(snapshot: str, data_dir: str, replaces_original: bool = False) -> tuple[int, int]:
    """Copy a snapshot durably; return the numbers of files and bytes.  OSError, `Unavailable`.

    With `replaces_original` the broker on the copy deletes objects that the original uploaded.

    The FORMAT of the data directory is written last: without it no broker starts on the files that
    an interrupted copy leaves.
    """
    source = ReadOnlyDisk(snapshot)
    if manifest_of(snapshot) is None or LAST not in source.list(""):
        raise Unavailable("this is not a complete snapshot: name a directory that `magnetar "
                          "snapshot` has made")  # fmt: skip
    os.makedirs(data_dir, exist_ok=True)
    if os.listdir(data_dir):
        raise Unavailable(f"{data_dir} is not empty: name a new directory")
    with closing(source.lock(layout.LOCK_FILE)):  # a broker may run on the snapshot
        return _copied(snapshot, data_dir, replaces_original)


def _copied(snapshot: str, data_dir: str, replaces_original: bool) -> tuple[int, int]:
    begin(data_dir)
    if not replaces_original:
        mark_as_copy(LocalDisk(data_dir))
    count = size = 0
    made = []
    last: list[tuple[str, str]] = []
    for folder, folders, files in os.walk(snapshot):
        folders[:] = [one for one in folders if one != "snapshots"]
        target = os.path.join(data_dir, os.path.relpath(folder, snapshot))
        os.makedirs(target, exist_ok=True)
        made.append(target)
        for name in sorted(files):
            pair = os.path.join(folder, name), os.path.join(target, name)
            if name == LAST:
                last.append(pair)
            elif name not in LEFT_OUT:
                length = os.path.getsize(pair[0])
                copy_file(*pair, length, Event())
                count, size = count + 1, size + length
    for target in reversed(made):
        sync(target)
    for pair in reversed(last):  # the FORMAT of the data directory itself comes last
        copy_file(*pair, os.path.getsize(pair[0]), Event())
        sync(os.path.dirname(pair[1]))
        count += 1
    end(data_dir)
    sync(os.path.dirname(os.path.abspath(data_dir)))
    return count, size
