"""The part of a snapshot that one process makes: of the store directories that it has open."""

import asyncio
import os
from collections.abc import Mapping
from threading import Event
from typing import Protocol, cast

from magnetar_broker.links.answer_within import answer_within
from magnetar_broker.links.link import Link
from magnetar_broker.server.snapshots.files import Copied, Gathering
from magnetar_storage.errors import Unavailable
from magnetar_storage.joined.joined_store import JoinedStore
from magnetar_storage.local import directories
from magnetar_storage.world.runtime import Clock, Promise

PREPARE, CUT, COPY = "snapshot.prepare", "snapshot.cut", "snapshot.copy"
PREPARE_SECONDS = 120.0
"""For a checkpoint of everything that is in memory only."""
CUT_SECONDS = 10.0
"""Changes of metadata wait meanwhile."""
COPY_SECONDS = 24 * 3600.0


class Part(Protocol):
    """One process that has store directories open.  `token` is that of the snapshot."""

    async def prepare(self) -> None:
        """Write checkpoints, so that little is left to write when it counts."""

    async def cut(self, token: str) -> None:
        """Decide what is in the snapshot: everything durable on return or a moment before."""

    async def copy(self, token: str, target: str) -> Copied:
        """Put it into the snapshot at the path `target`; after `cut`, once."""


class LocalPart:
    """The part of this process."""

    def __init__(self, store: JoinedStore, data_dir: str) -> None:
        self._stores = store.directories
        self._data_dir = data_dir
        self._token = ""
        self._stopped = Event()
        self._gathered: Mapping[int, tuple[Gathering, Promise]] = {}

    async def prepare(self) -> None:
        for store in self._stores.values():
            await store.checkpoint()

    async def cut(self, token: str) -> None:
        # Of a snapshot that was given up before it was copied; its files are removed already.
        self._drop()
        self._token = token
        gathered = {}
        for number, store in self._stores.items():
            path = os.path.join(self._data_dir, directories.name_of(number))
            gathering = Gathering(path, token, self._stopped)
            begun, done = store.capture(gathering.take)
            gathered[number] = gathering, done
            self._gathered = gathered
            await begun

    async def copy(self, token: str, target: str) -> Copied:
        if token != self._token:
            raise Unavailable("another snapshot was begun meanwhile")
        gathered, self._gathered = self._gathered, {}
        copied = Copied(0, 0, 0)
        try:
            for number, (gathering, done) in gathered.items():
                await done
                path = os.path.join(target, directories.name_of(number))
                copied += await asyncio.to_thread(gathering.copy, path)
        except OSError as error:
            raise Unavailable(f"the snapshot cannot be written: {error}") from error
        finally:
            for gathering, _ in gathered.values():
                await asyncio.to_thread(gathering.remove)
        return copied

    def _drop(self) -> None:
        for _, done in self._gathered.values():
            cast("asyncio.Future[None]", done).cancel()
        self._gathered = {}

    def stop(self) -> None:
        """End the copying that is under way, with an error."""
        self._stopped.set()


class LinkedPart:
    """The part of a worker, asked by the controller."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock

    async def prepare(self) -> None:
        await answer_within(self._clock, PREPARE_SECONDS, self._link, PREPARE)

    async def cut(self, token: str) -> None:
        await answer_within(self._clock, CUT_SECONDS, self._link, CUT, token)

    async def copy(self, token: str, target: str) -> Copied:
        return Copied(
            *await answer_within(self._clock, COPY_SECONDS, self._link, COPY, token, target)
        )


def serve_snapshots(part: LocalPart, link: Link) -> None:
    """Answer the requests of a `LinkedPart` in a worker."""

    async def copy(token: str, target: str) -> tuple[int, int, int]:
        copied = await part.copy(token, target)
        return copied.files, copied.bytes, copied.copied_bytes

    link.serve({PREPARE: part.prepare, CUT: part.cut, COPY: copy})
