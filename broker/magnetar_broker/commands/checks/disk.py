"""The disk of the data directory: free space, file system, permissions, and the speed of syncs."""

import errno
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from statistics import median

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Durability, Settings
from magnetar_storage.runtime.native_file import NATIVE_FILE
from magnetar_storage.space.free_limit import FreeLimit, named_bytes

SUBJECT = "disk"
LITTLE_LIMITS = 2
"""The multiple of the limit below which free space causes a warning."""
TOO_LITTLE_BYTES = 256 << 20
FEW_INODES = 10_000
SLOW_SYNC_MS = 20.0
SYNCS = 30
SYNCED_BYTES = 4096
LARGE_BYTES = 16 << 20
NETWORK = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "glusterfs", "lustre", "afs")
VOLATILE = ("tmpfs", "ramfs", "devtmpfs")


def check(settings: Settings) -> Iterator[Finding]:
    """Check the disk of the data directory, or of the directory that would contain it."""
    data_dir = os.path.abspath(settings.data_dir)
    place = data_dir
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    if place != data_dir:
        yield Finding("note", "data directory", f"{data_dir} does not exist: a start creates it")
    yield from _permissions(place, place == data_dir)
    yield from _room(place, settings.magnetar_disk_free_limit)
    yield from _kind(place)
    yield from _speed(place, settings.durability)


def _permissions(place: str, exists: bool) -> Iterator[Finding]:
    subject = "permissions"
    if not os.access(place, os.W_OK | os.X_OK | os.R_OK):
        yield Finding(
            "error", subject, f"this user ({os.getuid()}) cannot write to {place}",
            f"run as its owner, or: chown -R {os.getuid()} {place}",
        )  # fmt: skip
        return
    if not exists:
        return
    mode = os.stat(place).st_mode
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        what = "write to" if mode & stat.S_IWOTH else "read"
        yield Finding(
            "warning", subject, f"every user of this machine can {what} {place}",
            f"chmod o-rwx {place}",
        )  # fmt: skip
    foreign = [path for path in _some_files(place) if not os.access(path, os.R_OK | os.W_OK)]
    if foreign:
        yield Finding(
            "error", subject, f"this user ({os.getuid()}) cannot write to {foreign[0]}",
            f"run as its owner, or: chown -R {os.getuid()} {place}",
        )  # fmt: skip
    elif not mode & (stat.S_IROTH | stat.S_IWOTH):
        yield Finding("ok", subject, f"{place} is this user's alone")


def _some_files(place: str) -> Iterator[str]:
    for folder in ("", "journal", "segments", "workers"):
        with suppress(OSError):
            for entry in os.scandir(os.path.join(place, folder)):
                yield entry.path


def _room(place: str, limit: FreeLimit) -> Iterator[Finding]:
    found = os.statvfs(place)
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    least = limit.of(size)
    text = f"{named_bytes(free)} of {named_bytes(size)} are free at {place}"
    if least:
        text += f", {named_bytes(least)} are to stay free (magnetarDiskFreeLimit)"
    remedy = "free some space, or shorten retention: with less than that nothing can be published"
    if free < (least or TOO_LITTLE_BYTES):
        yield Finding("error", SUBJECT, text, remedy)
    elif free < LITTLE_LIMITS * (least or TOO_LITTLE_BYTES):
        yield Finding("warning", SUBJECT, text, remedy)
    else:
        yield Finding("ok", SUBJECT, text)
    if not least:
        yield Finding(
            "warning", SUBJECT, "magnetarDiskFreeLimit=0: a broker that fills the disk may be "
            "unable to delete anything, or to start", "set it to auto",
        )  # fmt: skip
    if found.f_files and found.f_favail < FEW_INODES:
        yield Finding(
            "warning", SUBJECT, f"only {found.f_favail} more files can be created",
            "a ledger is a file: use a file system with more inodes",
        )  # fmt: skip


def kind_of(place: str, mounts: str) -> str:
    """Return the file system type of a path, from the text of /proc/mounts; "" if unknown."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _kind(place: str) -> Iterator[Finding]:
    kind = ""
    with suppress(OSError), open("/proc/mounts", encoding="utf-8", errors="replace") as file:
        kind = kind_of(os.path.realpath(place), file.read())
    direct = "" if _has_direct(place) else ", without O_DIRECT: large writes use the page cache"
    yield from of_kind(place, kind, direct)


def of_kind(place: str, kind: str, direct: str = "") -> Iterator[Finding]:
    """Yield the finding about a type of file system; `direct` says what it lacks."""
    if kind.startswith(NETWORK):
        yield Finding(
            "warning", SUBJECT, f"{place} is on a network file system ({kind})",
            "use a local disk: locks, syncs and their speed depend on the server",
        )  # fmt: skip
    elif kind in VOLATILE:
        yield Finding(
            "warning", SUBJECT, f"{place} is in memory ({kind}): a restart of the machine loses it",
            "use a disk",
        )  # fmt: skip
    elif kind or direct:
        yield Finding("note", SUBJECT, f"the file system is {kind or 'unknown'}{direct}")


def _has_direct(place: str) -> bool:
    if sys.platform != "linux":
        return True
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".magnetar-doctor-") as file:
            os.close(os.open(file.name, os.O_RDWR | os.O_DIRECT))
    except OSError as error:
        return error.errno != errno.EINVAL
    return True


def _speed(place: str, durability: Durability) -> Iterator[Finding]:
    try:
        sync_ms, mbytes = _measure(place)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            yield Finding("note", SUBJECT, f"its speed was not measured: {error.strerror}")
            return
        yield Finding(
            "error", SUBJECT, f"cannot write to {place}: {error.strerror}",
            "correct the permissions, or name another directory (magnetarDataDirectory)",
        )  # fmt: skip
        return
    text = f"a write of 4 KiB and its sync take {sync_ms:.2f} ms, {mbytes:.0f} MB/s in large ones"
    if durability is Durability.RELAXED:
        yield Finding(
            "warning", "magnetarDurability", "relaxed: a power failure can lose what was "
            "acknowledged in the last moments", "set it to fsync, unless that is intended",
        )  # fmt: skip
    if sync_ms > SLOW_SYNC_MS:
        yield Finding(
            "warning", SUBJECT, f"slow: {text}",
            "every receipt waits for a sync: use a disk that syncs faster, such as NVMe",
        )  # fmt: skip
    else:
        yield Finding("ok", SUBJECT, text)


def _measure(place: str) -> tuple[float, float]:
    """Return the median milliseconds of a small write with its sync, and a large one's MB/s."""
    with tempfile.TemporaryFile(dir=place, prefix=".magnetar-doctor-") as file:
        descriptor = file.fileno()
        times = []
        for number in range(SYNCS):
            data = os.urandom(SYNCED_BYTES)
            began = time.perf_counter()
            os.pwrite(descriptor, data, number * SYNCED_BYTES)
            NATIVE_FILE.sync_data(descriptor)
            times.append(time.perf_counter() - began)
        large = os.urandom(1 << 20)
        began = time.perf_counter()
        for at in range(0, LARGE_BYTES, len(large)):
            os.pwrite(descriptor, large, at)
        NATIVE_FILE.sync_data(descriptor)
        took = time.perf_counter() - began
    return median(times) * 1000, LARGE_BYTES / 1e6 / took
