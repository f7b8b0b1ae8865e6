"""The storage of a broker: what its processes ask of it, and the choice of an engine.

A process opens its part of the storage with a context manager, which closes it.  An engine is one
room with a class like `LocalStorage`, and one line in `storage_of`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from magnetar_broker.config import Settings
from magnetar_broker.expiry.listed_objects import ObjectAccess
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.placement.worker_links import WorkerLinks
from magnetar_broker.server.data_directory.local_storage import LocalStorage
from magnetar_broker.server.data_directory.snapshots.making import Snapshots
from magnetar_broker.server.runtime.ports import PortNumbers
from magnetar_broker.server.runtime.process_runtime import ProcessRuntime
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.log.engine import Engine
from magnetar_storage.space.disk_space import SpaceState


class SoleStorage(Protocol):
    """The open storage of a broker of one process."""

    @property
    def engine(self) -> Engine:
        """The segment store, the metadata store, the disk space, and the objects of all logs."""

    @property
    def journal(self) -> JournalStats:
        """The figures of commit rounds; all zero if the engine has none."""

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata, as the REST API shows it."""

    @property
    def snapshots(self) -> Snapshots | None:
        """The snapshots of the data; None if the engine cannot make any."""

    @property
    def objects(self) -> ObjectAccess | None:
        """The access to the copies of ledgers in stores of objects; None if there are none."""

    async def stop(self) -> None:
        """Abandon the snapshot that is being made; called before the topics are closed."""


class WorkerStorage(Protocol):
    """The open storage of a worker."""

    @property
    def engine(self) -> Engine:
        """The segment store, the metadata store, the disk space, and the objects of all logs."""

    @property
    def journal(self) -> JournalStats:
        """The figures of commit rounds; all zero if the engine has none."""

    def serve_controller(self, link: Link) -> None:
        """Serve the storage of a controller; called before the link to it is connected."""

    def serve(self, link: Link) -> None:
        """Serve the storage of another worker; called before the link to it is connected."""

    async def join(self) -> None:
        """Agree with the other processes on what is stored; called before topics are served.

        Waits for all workers.  Raises the error that prevents the start.
        """

    async def rejoin(self, link: Link) -> None:
        """Tell a controller, which follows another one, what is stored while topics are served."""

    def stop(self) -> None:
        """Abandon this worker's part of a snapshot; called before the topics are closed."""


class ControllerStorage(Protocol):
    """The open storage of the controller, which stores no messages."""

    @property
    def metadata(self) -> MetadataStore: ...

    @property
    def space(self) -> SpaceState:
        """Whether the disk has room."""

    @property
    def metadata_url(self) -> str:
        """The URL of the metadata, as the REST API shows it."""

    @property
    def snapshots(self) -> Snapshots | None:
        """The snapshots of the data; None if the engine cannot make any."""

    @property
    def objects(self) -> ObjectAccess:
        """The access to the objects of the data in stores of objects."""

    async def before_giving(self, worker: int) -> None:
        """Prepare a worker to take over topics of another one; raises if that is impossible."""

    def serve(self, worker: int, link: Link, may_write: Callable[[str], bool]) -> None:
        """Serve a worker that has started, or started again; before the link is connected.

        `may_write(key)` returns whether the worker may write that key of the metadata now.
        """

    async def stop(self) -> None:
        """Abandon the snapshot that is being made; called before the directory of names stops."""


class SharedStorage(Protocol):
    """The storage of a broker of several processes, prepared before they are forked.

    The data belongs to the broker until the last process that has it open has ended.  The settings
    of a process are arguments, since a reload changes them.
    """

    def controller(
        self,
        settings: Settings,
        process: ProcessRuntime,
        links: WorkerLinks,
        workers: int,
        is_first: bool,
    ) -> AbstractAsyncContextManager[ControllerStorage]:
        """Open the part of the controller; `is_first` if no controller of the broker has run."""

    def worker(
        self,
        settings: Settings,
        process: ProcessRuntime,
        number: int,
        controllers: SuccessiveLinks,
        others: Mapping[int, SuccessiveLinks],
    ) -> AbstractAsyncContextManager[WorkerStorage]:
        """Open the part of a worker, and recover it from a crash.

        `controllers` are the links to one controller after the other, and `others` those to the
        other workers, by number.  There is no link yet.
        """


class Storage(Protocol):
    """The storage that the settings name; nothing is open yet."""

    @property
    def described(self) -> Sequence[tuple[str, str]]:
        """The lines of the banner about the data, each with the word that it begins with."""

    @property
    def is_waiting(self) -> bool:
        """Whether `open` waits for another broker to end: it may be cancelled meanwhile."""

    def open(self, process: ProcessRuntime) -> AbstractAsyncContextManager[SoleStorage]:
        """Open the storage for a broker of one process, and recover from a crash."""

    def share(self, workers: int) -> SharedStorage:
        """Prepare the storage for the processes of a broker, which are forked afterwards.

        Raises the error that prevents the start.
        """

    def announce(self, ports: PortNumbers) -> None:
        """Record the addresses of this broker for commands that know only its data."""

    def withdraw(self) -> None:
        """Remove the addresses."""


def storage_of(settings: Settings) -> Storage:
    """Return the storage that the settings name."""
    if settings.magnetar_segment_store is None:
        return LocalStorage(settings)
    # Here: a broker with a data directory does without these imports.
    from magnetar_broker.server.remote_data.remote_storage import (  # noqa: PLC0415
        RemoteStorage,
    )

    return RemoteStorage(settings)
