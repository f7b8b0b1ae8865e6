"""Opening the store of one process, with all store directories of the data directory."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from magnetar_storage.errors import StorageError
from magnetar_storage.local import directories
from magnetar_storage.local import limits as sizes
from magnetar_storage.local.finished_segments import FinishedSegments
from magnetar_storage.local.journal import Observe
from magnetar_storage.local.limits import Limits
from magnetar_storage.local.recovery import Finding
from magnetar_storage.local.store import LocalStore, Report
from magnetar_storage.multi_store.foreign_directory import ForeignDirectory
from magnetar_storage.multi_store.holder import Holder
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.runtime.disk import Disk, Lock
from magnetar_storage.runtime.execution import Clock, Workers
from magnetar_storage.space.disk_space import SpaceState
from magnetar_storage.space.reserve import STORE_FILE, Reserve


@dataclass(frozen=True)
class Share:
    """The store directories of one of `of` workers: every d with d % of == worker."""

    worker: int = 0
    of: int = 1
    holders: Mapping[int, Holder] = field(default_factory=dict)
    """The other workers, by number."""


ALL = Share()
"""The share of a single-process broker."""


async def open_store(
    disk: Disk,
    workers: Workers,
    clock: Clock,
    limits: Limits = sizes.DEFAULT,
    observe: Observe | None = None,
    timer: Callable[[], float] | None = None,
    report: Report | None = None,
    share: Share = ALL,
    lock: Lock | None = None,
    written: Callable[[float], None] | None = None,
    space: SpaceState | None = None,
) -> JoinedStore:
    """Open this process's share of a data directory; the caller must check `findings` then.

    `disk` is the disk of the data directory, and `lock` its lock if the caller holds it and this
    process opens directory 0; the other arguments are those of `LocalStore.open`, which locks
    unlocked directories.  With several workers, call `directories.prepare` before they start.
    """
    found = await workers.background.run(partial(_find, disk))
    own = share.worker
    mine = sorted({own, *(number for number in found if number % share.of == own)})
    findings: list[Finding] = []
    add = report or findings.append
    opened: dict[int, LocalStore] = {}
    try:
        for number in mine:
            if number != own:
                # Left by an earlier worker: this process writes to its own directory only.
                left = Reserve(directories.disk_of(disk, number), STORE_FILE)
                await workers.background.run(left.give)
            with directories.named(number):
                opened[number] = await LocalStore.open(
                    directories.disk_of(disk, number), workers, clock, limits, observe, timer,
                    partial(_report, add, number), number, lock if number == 0 else None,
                    written, space,
                )  # fmt: skip
        # Topics of this process may have segments in any of them.
        # promise: new ids are above those of all directories of the process
        await opened[own].advance_beyond(max(store.last_id for store in opened.values()))
    except BaseException:
        for store in opened.values():
            with suppress(StorageError):
                await store.close()
        raise
    for number, store in opened.items():
        findings += [_within(number, finding) for finding in store.findings]
    foreign: dict[int, ForeignDirectory] = {}
    for number in set(found) - opened.keys():
        files = directories.disk_of(disk, number)
        foreign[number] = ForeignDirectory(
            files,
            workers.reads,
            share.holders[number % share.of],
            FinishedSegments(
                files, workers.reads, limits.loaded_segments, partial(_report, add, number)
            ),
        )
    return JoinedStore(own, opened, foreign, findings)


def _find(disk: Disk) -> list[int]:
    found = directories.present(disk)
    directories.check(disk, found)
    return found


def _report(report: Report, directory: int, finding: Finding) -> None:
    report(_within(directory, finding))


def _within(directory: int, finding: Finding) -> Finding:
    """Return a finding of a store directory with the name of the file in the data directory."""
    if not directory:
        return finding
    file = directories.path_of(directory, finding.file)
    return replace(finding, file=file, text=f"{directories.name_of(directory)}: {finding.text}")
