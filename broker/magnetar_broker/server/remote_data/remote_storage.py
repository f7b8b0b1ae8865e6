"""The storage of a broker whose data is in a store of objects and a store of metadata.

The machine of the broker stores nothing.  One broker at a time serves the data (`leadership.py`);
others are started in the same way, and wait until its lease ends.
"""

import asyncio
import logging
import os
import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, NoReturn

from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.start_failed import StartFailed
from magnetar_broker.config import Settings
from magnetar_broker.metrics.journal import JournalStats
from magnetar_broker.server.engine import engine_of
from magnetar_broker.server.metadata_stores.access import MetadataAccess
from magnetar_broker.server.metadata_stores.opening import open_metadata
from magnetar_broker.server.metadata_stores.urls import MetadataRefused, place_text
from magnetar_broker.server.object_stores.credentials import credentials_in
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_broker.server.object_stores.places import PlaceRefused
from magnetar_broker.server.object_stores.time_limits import TimeLimits
from magnetar_broker.server.remote_data.belonging import PROBES, belong, id_in
from magnetar_broker.server.remote_data.leadership import Leadership, lead
from magnetar_broker.server.runtime.ports import PortNumbers
from magnetar_broker.server.runtime.process_runtime import ProcessRuntime
from magnetar_storage.errors import StorageError
from magnetar_storage.identity import Identity
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.local.recovery import Finding
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.no_copies import NoCopies
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.objects.probe import RACERS, probe
from magnetar_storage.runtime.execution import Worker
from magnetar_storage.session_store.limits import SessionLimits
from magnetar_storage.session_store.opening import SessionWorkers, open_session_store
from magnetar_storage.session_store.store import SessionStore
from magnetar_storage.space.disk_space import SpaceState
from magnetar_storage.wal.slot_writer import StoredSlot, WalLimits

logger = logging.getLogger(__name__)

READ_THREADS: Final = 4
REQUEST_SECONDS: Final = 15.0
"""The longest time for a request to the store of objects; receipts wait for one without answer."""
MOST_REQUEST_SECONDS: Final = 3.0
"""The longest time for a request to the metadata, so that one without answer ends no lease."""
SETTLED_PART: Final = 8
"""The part, 1/8, of what may wait in memory after which it is written to segments."""
SLOTS_OF_UPLOAD: Final = 4
"""The objects of the log, for each upload, that may wait for an earlier one which is slow."""
ALREADY_OBJECTS: Final = "the data of this broker is in a store of objects already"


class RemoteSoleStorage:
    """The `SoleStorage` of data in shared stores."""

    def __init__(self, engine: Engine, journal: JournalStats, metadata_url: str) -> None:
        self.engine = engine
        self.journal = journal
        self.metadata_url = metadata_url
        self.snapshots = None
        self.objects = None

    async def stop(self) -> None:
        """Do nothing: there is no snapshot to abandon."""


class RemoteStorage:
    """The `Storage` of data in shared stores."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._place = settings.magnetar_segment_store or ""
        self._metadata_url = _shown(settings.metadata_store_url or "")
        self.is_waiting = False
        self._stops = False

    @property
    def described(self) -> Sequence[tuple[str, str]]:
        linger_ms = self._settings.magnetar_wal_linger_ms
        return (
            ("data", self._place),
            ("metadata", self._metadata_url),
            (
                "durability",
                "objects: a receipt or ack response is sent when the store of objects has the "
                f"data, after up to {linger_ms} ms (magnetarWalLingerMs) and one request",
            ),
        )

    @asynccontextmanager
    async def open(self, process: ProcessRuntime) -> AsyncIterator[RemoteSoleStorage]:
        settings, clock, journal = self._settings, process.clock, JournalStats()
        background = process.threads.more("objects", RACERS)
        objects = await background[0].run(self._open_objects)
        # Before it waits: a standby that could not serve is noticed now.
        await background[0].run(partial(id_in, objects))
        async with AsyncExitStack() as opened:
            metadata = await self._open_metadata(process)
            opened.push_async_callback(metadata.close)
            process.phases.end("metadata")
            name = f"process {os.getpid()} of {platform.node()}"
            self.is_waiting = True
            try:
                leadership = await lead(metadata, clock, settings.magnetar_lease_seconds, name)
            finally:
                self.is_waiting = False
            # In reverse order: the data is settled before another broker serves it.
            opened.push_async_callback(metadata.revoke, leadership.lease)
            opened.callback(self._begin_to_stop)
            leadership.lease.when_lost(partial(self._lost, "its lease has ended"))
            process.phases.end("leadership")
            identity = await self._check(process, objects, metadata, background)
            process.phases.end("check of the stores")
            store = await self._open_store(
                process, objects, metadata, background, leadership, identity, name, journal
            )
            opened.push_async_callback(store.close)
            for number, former in (await store.open_sessions()).items():
                logger.info("taking over what %s has left (session %d)", former, number)
                await store.end_session(number)
            process.tasks.spawn(store.adopt_settled())
            process.phases.end("sessions of former brokers")
            guarded = GuardedMetadata(metadata, leadership.guard)
            engine = engine_of(
                settings, store, guarded, clock, process.tasks, journal, SpaceState(),
                NoCopies(ALREADY_OBJECTS),
            )  # fmt: skip
            yield RemoteSoleStorage(engine, journal, self._metadata_url)

    def share(self, workers: int) -> NoReturn:
        raise StartFailed(
            f"data in a store of objects is served by one process, not by {workers} workers: set "
            "magnetarWorkers=1"
        )

    def announce(self, ports: PortNumbers) -> None:
        """Do nothing: there is no data directory in which commands look for the addresses."""

    def withdraw(self) -> None:
        """Do nothing, as in `announce`."""

    def _open_objects(self) -> Objects:
        try:
            limits = TimeLimits(request_seconds=REQUEST_SECONDS, retry_seconds=REQUEST_SECONDS)
            return open_objects(self._place, credentials_in(self._settings), limits)
        except PlaceRefused as error:
            raise StartFailed(f"magnetarSegmentStore: {error}") from error

    async def _open_metadata(self, process: ProcessRuntime) -> MetadataStore:
        post = asyncio.get_running_loop().call_soon_threadsafe
        try:
            return await open_metadata(
                self._settings.metadata_store_url or "",
                process.clock,
                post,
                access_in(self._settings),
            )
        except MetadataRefused as error:
            raise StartFailed(f"metadataStoreUrl: {error}") from error

    async def _check(
        self,
        process: ProcessRuntime,
        objects: Objects,
        metadata: MetadataStore,
        background: Sequence[Worker],
    ) -> Identity:
        """Return the identity of the data; raise if the stores cannot be used for it."""
        # First: a store that cannot be used gets no id, which would have to be removed by hand.
        await probe(objects, background, f"{PROBES}{os.urandom(8).hex()}")
        named = self._place, self._metadata_url
        new_id = os.urandom(NONCE_BYTES)
        return Identity(
            await belong(objects, metadata, background[0], process.clock, new_id, named)
        )

    async def _open_store(
        self,
        process: ProcessRuntime,
        objects: Objects,
        metadata: MetadataStore,
        background: Sequence[Worker],
        leadership: Leadership,
        identity: Identity,
        name: str,
        journal: JournalStats,
    ) -> SessionStore:
        settings, threads = self._settings, process.threads
        workers = SessionWorkers(
            threads.more("uploads", settings.magnetar_wal_uploads),
            background,
            threads.more("segments", READ_THREADS),
        )
        store = await open_session_store(
            objects,
            workers,
            process.clock,
            process.tasks,
            metadata,
            lambda: os.urandom(NONCE_BYTES),
            report,
            owner=name,
            guard=leadership.guard,
            limits=session_limits(settings),
            may_confirm=leadership.holds,
            identity=lambda: identity,
            observe=partial(_observe, journal),
        )
        store.when_ended(self.log_ended)
        return store

    def _begin_to_stop(self) -> None:
        self._stops = True

    def log_ended(self, error: StorageError) -> None:
        """End this process, which can store nothing any more: a standby can."""
        # promise: a broker whose log has failed makes room for a standby
        self._lost(f"nothing can be added to its log any more: {error}")

    def _lost(self, why: str) -> None:
        """End this process at once: another broker may serve the data now."""
        if not self._stops:
            logger.critical("this broker ends, because %s", why)
            logging.shutdown()
            os._exit(1)


def _shown(url: str) -> str:
    """Return the URL of the metadata without passwords."""
    try:
        return place_text(url)
    except MetadataRefused as error:
        raise StartFailed(f"metadataStoreUrl: {error}") from error


def access_in(settings: Settings) -> MetadataAccess:
    """Return the credentials for the metadata that the settings give."""
    return MetadataAccess(
        user=settings.magnetar_metadata_user or "",
        password_file=settings.magnetar_metadata_credentials_file or "",
        trusted_certificates_file=settings.magnetar_metadata_trust_certs_file_path or "",
        certificate_file=settings.magnetar_metadata_certificate_file_path or "",
        key_file=settings.magnetar_metadata_key_file_path or "",
        request_seconds=min(MOST_REQUEST_SECONDS, settings.magnetar_lease_seconds / 4),
    )


def session_limits(settings: Settings) -> SessionLimits:
    """Return the limits of the store of segments that the settings give."""
    most_bytes = settings.magnetar_wal_unsettled_size_mb << 20
    return SessionLimits(
        wal=WalLimits(
            round_bytes=settings.magnetar_wal_object_size_kb << 10,
            linger_seconds=settings.magnetar_wal_linger_ms / 1000,
            unreported_slots=SLOTS_OF_UPLOAD * settings.magnetar_wal_uploads,
        ),
        settle_bytes=most_bytes // SETTLED_PART,
        most_bytes=most_bytes,
    )


def _observe(journal: JournalStats, stored: StoredSlot) -> None:
    """Count an object of the write-ahead log as a round of the journal."""
    places = stored.encoded.places
    journal.observe(len(places), sum(place.size for place in places), None)
    journal.written(stored.seconds)


def report(finding: Finding) -> None:
    """Log damage, and writes that failed and are repeated."""
    logger.log(logging.ERROR if finding.data_lost else logging.WARNING, "%s", finding.text)
