"""The data directory: whether a broker would start on it, and whether anything is damaged."""

from collections.abc import Iterator

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.commands.checks.holder import Holder
from magnetar_broker.verify import check as verify
from magnetar_storage.errors import StorageError
from magnetar_storage.local import layout
from magnetar_storage.runtime.disk import ReadOnlyDisk
from magnetar_storage.verify.verify import size_of

SUBJECT = "data"
QUICK_BYTES = 512 << 20
"""The size above which the data are only read on request."""


def check(data_dir: str, holder: Holder | None, verifies: bool) -> Iterator[Finding]:
    """Check the data directory, unless a process holds it."""
    try:
        disk = ReadOnlyDisk(data_dir)
    except StorageError:
        return  # another check reports that the directory is missing
    if not disk.list(""):
        return
    if holder is not None:
        yield Finding(
            "note", SUBJECT, f"in use by {holder.name}: not checked",
            "to check it, stop the broker, or verify a snapshot (magnetar snapshot --verify)",
        )  # fmt: skip
        return
    try:
        version = layout.format_of(disk).version
        size = size_of(disk)
        if size > QUICK_BYTES and not verifies:
            yield Finding(
                "note", SUBJECT, f"format {version}, {size / 1e9:.1f} GB: not read",
                f"magnetar doctor --verify, or magnetar verify {data_dir}",
            )  # fmt: skip
            return
        report = verify(data_dir, with_progress=True)
    except (StorageError, OSError) as error:
        yield Finding("error", SUBJECT, str(error), "docs/durability.md says what can be done")
        return
    damaged = [problem for problem in report.problems if problem.damage]
    text = f"{report.topics} topics, {report.entries} entries, {report.bytes / 1e6:.1f} MB"
    if damaged:
        yield Finding(
            "error", SUBJECT, f"{len(damaged)} damaged: {damaged[0].file}: {damaged[0].text}",
            f"magnetar verify {data_dir} lists everything; restore a snapshot or a copy",
        )  # fmt: skip
    else:
        yield Finding("ok", SUBJECT, f"format {version}, {text}: no damage")
