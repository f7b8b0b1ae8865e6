"""One process's part of a snapshot: the store directories that it has open."""

import asyncio
import os
from threading import Event
from typing import Protocol

from magnetar_broker.ipc.answer_within import answer_within
from magnetar_broker.ipc.link import Link
from magnetar_broker.server.data_directory.snapshots.files import CheckpointFiles, CopiedFiles
from magnetar_storage.errors import Unavailable
from magnetar_storage.local import directories
from magnetar_storage.multi_store.multi_store import JoinedStore
from magnetar_storage.runtime.execution import Clock, Promise

PREPARE, CUT, COPY = "snapshot.prepare", "snapshot.cut", "snapshot.copy"
DROP = "snapshot.drop"
PREPARE_SECONDS = 120.0
"""The time limit, in seconds, of the checkpoint before a snapshot."""
CUT_SECONDS = 10.0
"""The time limit of a cut, during which changes of metadata wait."""
COPY_SECONDS = 24 * 3600.0
DROP_SECONDS = 120.0
"""The time limit, in seconds, for a running checkpoint to end and links to be removed."""


class SnapshotPart(Protocol):
    """The store directories that one process has open; `token` identifies the snapshot."""

    async def prepare(self) -> None:
        """Write checkpoints, so that little is left to write during the cut."""

    async def cut(self, token: str) -> None:
        """Fix the content of the snapshot: all that is durable on return or a moment before."""

    async def copy(self, token: str, target: str) -> CopiedFiles:
        """Copy the part into the snapshot at the path `target`; called once, after `cut`."""

    async def drop(self, token: str) -> None:
        """Wait for running work of a failed snapshot, and remove its files."""


class LocalPart:
    """The part made by this process."""

    def __init__(self, store: JoinedStore, data_dir: str) -> None:
        self._stores = store.directories
        self._data_dir = data_dir
        self._token = ""  # names the request under way, not a secret  # nosec B105
        self._stopped = Event()
        self._gathered: dict[int, tuple[CheckpointFiles, Promise]] = {}
        self._turn = asyncio.Lock()
        """Serializes requests: a caller may give up waiting for an answer, and send another one."""

    async def prepare(self) -> None:
        async with self._turn:
            await self._remove()  # left by a snapshot whose `drop` did not arrive
        for store in self._stores.values():
            await store.checkpoint()

    async def cut(self, token: str) -> None:
        async with self._turn:
            self._token = token
            for number, store in self._stores.items():
                path = os.path.join(self._data_dir, directories.name_of(number))
                gathering = CheckpointFiles(path, token, self._stopped)
                begun, done = store.capture(gathering.take)
                self._gathered[number] = gathering, done
                await begun

    async def copy(self, token: str, target: str) -> CopiedFiles:
        async with self._turn:
            if token != self._token:
                raise Unavailable("another snapshot was begun meanwhile")
            copied = CopiedFiles(0, 0, 0)
            try:
                for number, (gathering, done) in self._gathered.items():
                    await done
                    path = os.path.join(target, directories.name_of(number))
                    copied += await asyncio.to_thread(gathering.copy, path)
            except OSError as error:
                raise Unavailable(f"the snapshot cannot be written: {error}") from error
            await self._remove()
            return copied

    async def drop(self, token: str) -> None:
        async with self._turn:
            if token == self._token:
                await self._remove()

    async def _remove(self) -> None:
        """Remove the gathered files, once nothing is being gathered."""
        gathered = self._gathered
        await asyncio.gather(*(done for _, done in gathered.values()), return_exceptions=True)
        for number in list(gathered):
            await asyncio.to_thread(gathered[number][0].remove)
            del gathered[number]

    def stop(self) -> None:
        """End the running copy with an error."""
        self._stopped.set()


class LinkedPart:
    """The part of a worker, which is requested over its link."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock

    async def prepare(self) -> None:
        await answer_within(self._clock, PREPARE_SECONDS, self._link, PREPARE)

    async def cut(self, token: str) -> None:
        await answer_within(self._clock, CUT_SECONDS, self._link, CUT, token)

    async def copy(self, token: str, target: str) -> CopiedFiles:
        return CopiedFiles(
            *await answer_within(self._clock, COPY_SECONDS, self._link, COPY, token, target)
        )

    async def drop(self, token: str) -> None:
        await answer_within(self._clock, DROP_SECONDS, self._link, DROP, token)


def serve_snapshots(part: LocalPart, link: Link) -> None:
    """Answer the requests of a `LinkedPart` in a worker."""

    async def copy(token: str, target: str) -> tuple[int, int, int]:
        copied = await part.copy(token, target)
        return copied.files, copied.bytes, copied.copied_bytes

    link.serve({PREPARE: part.prepare, CUT: part.cut, COPY: copy, DROP: part.drop})
