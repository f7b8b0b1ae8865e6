"""Makes snapshots: one at a time, by the process that has the metadata.

A snapshot holds a state that a crash of all processes could leave behind.  Changes of metadata wait
while every process decides what is in its part, so the order of changes of both holds: a segment is
created before it is listed, listed before it is written, and unlisted before it is deleted.
Messages and acknowledgements of one topic are in the journal of one process, so each topic is as it
was at one moment.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from magnetar_broker.base.errors import AlreadyExists, BrokerError, NotReady
from magnetar_broker.base.version import VERSION
from magnetar_broker.config import Settings
from magnetar_broker.server.data_directory.snapshots.files import (
    UNFINISHED,
    CopiedFiles,
    Manifest,
    begin,
    complete,
    manifest_of,
    remove_manifest,
    remove_rests,
    remove_tree,
)
from magnetar_broker.server.data_directory.snapshots.part import SnapshotPart
from magnetar_storage.errors import StorageError
from magnetar_storage.local import directories, layout
from magnetar_storage.metadata.database import FILE as METADATA_FILE
from magnetar_storage.metadata.sqlite import SqliteMetadata
from magnetar_storage.runtime.disk import LocalDisk
from magnetar_storage.runtime.execution import Clock

T = TypeVar("T")
logger = logging.getLogger(__name__)

HELD_SECONDS = 15.0
"""The time that changes of metadata may wait for a snapshot; then it is given up."""
MOST_LISTED = 1000

Parts = Callable[[], Sequence[SnapshotPart]]
"""Returns the parts of all processes with store directories; `NotReady` if one is absent."""


@dataclass
class SnapshotRun:
    """The snapshot that is being made, or the last one made."""

    name: str
    created_ms: int
    token: str = field(default_factory=lambda: os.urandom(8).hex())
    status: str = "RUNNING"
    error: str = ""


class Snapshots:
    """Makes and lists the snapshots of a broker."""

    def __init__(
        self, metadata: SqliteMetadata, parts: Parts, settings: Settings, clock: Clock
    ) -> None:
        self._metadata = metadata
        self._parts = parts
        self._data_dir = os.path.abspath(settings.data_dir)
        self._directory = os.path.abspath(
            settings.magnetar_snapshot_directory or os.path.join(self._data_dir, "snapshots")
        )
        self._clock = clock
        self._last: SnapshotRun | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    async def clear(self) -> None:
        """Remove files of interrupted snapshots, and the manifest of a snapshot started on."""
        # promise: a running data directory is not a snapshot
        await asyncio.to_thread(remove_manifest, self._data_dir)
        await asyncio.to_thread(remove_rests, self._data_dir, self._directory)

    def begin(self, name: str) -> dict[str, Any]:
        """Begin to make a snapshot with this name; return its state, as `state` does."""
        if self._stopped:
            raise NotReady("the broker is stopping: retry when it has started again")
        if self._last is not None and self._last.status == "RUNNING":
            raise AlreadyExists(
                f"the snapshot {self._last.name} is being made: wait until it is complete"
            )
        if os.path.lexists(self._path(name)):
            raise AlreadyExists(f"there is a snapshot {name} already: choose another name")
        parts = self._parts()
        self._last = making = SnapshotRun(name, self._clock.now_ms())
        self._task = asyncio.create_task(self._run(making, parts))
        return self._state_of(making)

    async def state(self, name: str) -> dict[str, Any] | None:
        """Return the state of a snapshot; None if no snapshot has this name."""
        if self._last is not None and self._last.name == name and self._last.status != "SUCCESS":
            return self._state_of(self._last)
        return await asyncio.to_thread(self._stored, name)

    async def complete(self) -> list[dict[str, Any]]:
        """Return the states of the complete snapshots, by name."""
        return await asyncio.to_thread(self._list)

    async def stop(self) -> None:
        """Stop the snapshot that is being made, and refuse later ones.

        On return metadata can change again; the files that are left are removed by the next start.
        """
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def _list(self) -> list[dict[str, Any]]:
        with suppress(FileNotFoundError):
            names = sorted(os.listdir(self._directory))[:MOST_LISTED]
            return [state for name in names if (state := self._stored(name)) is not None]
        return []

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _stored(self, name: str) -> dict[str, Any] | None:
        path = self._path(name)
        found = None if name.endswith(UNFINISHED) else manifest_of(path)
        if found is None:
            return None
        return {**asdict(found), "name": name, "status": "SUCCESS", "path": path}

    def _state_of(self, making: SnapshotRun) -> dict[str, Any]:
        state = {
            "name": making.name,
            "status": making.status,
            "path": self._path(making.name),
            "created_ms": making.created_ms,
        }
        return state | ({"error": making.error} if making.error else {})

    async def _run(self, making: SnapshotRun, parts: Sequence[SnapshotPart]) -> None:
        unfinished = f"{self._path(making.name)}.{making.token}{UNFINISHED}"
        try:
            await asyncio.to_thread(self._make_room, unfinished)
            copied = await self._make(making, parts, unfinished)
        except (StorageError, BrokerError, OSError) as error:
            making.error = str(error)
            logger.error("the snapshot %s was not made: %s", making.name, error)
        except Exception:
            making.error = "internal error, a defect of the broker: its log has the details"
            logger.exception("the snapshot %s was not made; this is a defect", making.name)
        except asyncio.CancelledError:
            # Its files may be large: the next start removes them, so that the stop does not wait.
            making.status, making.error = "ERROR", "the broker stopped"
            raise
        else:
            making.status = "SUCCESS"
            logger.info(
                "snapshot %s: %d files, %.1f MB, of which %.1f MB were copied, in %d ms",
                self._path(making.name), copied.files, copied.bytes / 1e6,
                copied.copied_bytes / 1e6, self._clock.now_ms() - making.created_ms,
            )  # fmt: skip
            return
        try:
            await self._remove(making, parts, unfinished)
        finally:
            making.status = "ERROR"  # not before: the next one begins when nothing is left

    async def _remove(
        self, making: SnapshotRun, parts: Sequence[SnapshotPart], unfinished: str
    ) -> None:
        """Remove the files of a snapshot that failed."""
        try:
            # promise: a failed snapshot leaves no links
            await _all(part.drop(making.token) for part in parts)
        except Exception as error:  # such as the error of a process that has ended
            logger.warning(
                "files of the snapshot %s stay in the data directory until the next snapshot or "
                "start: %s",
                making.name, error,
            )  # fmt: skip
        # promise[await asyncio.to_thread(remove_tree, unfinished) -> remove_tree(unfinished)]: a
        #   failed snapshot is removed in a thread
        await asyncio.to_thread(remove_tree, unfinished)

    def _make_room(self, unfinished: str) -> None:
        os.makedirs(self._directory, exist_ok=True)
        remove_rests(self._data_dir, self._directory)
        begin(unfinished)
        # The users who may read the data may read the snapshot, and no others.
        os.chmod(unfinished, os.stat(self._data_dir).st_mode & 0o777)

    async def _make(
        self, making: SnapshotRun, parts: Sequence[SnapshotPart], unfinished: str
    ) -> CopiedFiles:
        await _all(part.prepare() for part in parts)
        try:
            async with asyncio.timeout(HELD_SECONDS):
                # promise[swap]: metadata is copied before the cut
                await self._metadata.hold(os.path.join(unfinished, METADATA_FILE))
                await _all(part.cut(making.token) for part in parts)
        except TimeoutError:
            raise NotReady(
                f"the broker could not agree within {HELD_SECONDS:g} s on what is in the "
                "snapshot: try again when it has less to do"
            ) from None
        finally:
            self._metadata.release()  # promise: after a failed snapshot metadata changes again
        copied = sum(
            await _all(part.copy(making.token, unfinished) for part in parts), CopiedFiles(0, 0, 0)
        )
        disk = LocalDisk(self._data_dir)
        formats = {
            number: layout.format_of(directories.disk_of(disk, number))
            for number in directories.present(disk)
        }
        manifest = Manifest(making.name, making.created_ms, VERSION, **asdict(copied))
        await asyncio.to_thread(
            partial(complete, unfinished, self._path(making.name), formats, manifest)
        )
        return copied


async def _all(work: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all, and return their results; raise the first error after all have ended."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]
