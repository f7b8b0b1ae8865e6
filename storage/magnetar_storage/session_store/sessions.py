"""Sessions: the life of a process each, with the record and the segments that it has left."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from magnetar_storage.errors import (
    BadVersion,
    Corrupt,
    Fenced,
    Incomplete,
    NoObject,
    Unavailable,
)
from magnetar_storage.interfaces import ABSENT, Guard, MetadataStore, SegmentId, Version
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Worker
from magnetar_storage.runtime.mutex import KeyedMutex
from magnetar_storage.session_store import manifest, older_metadata, packs
from magnetar_storage.session_store.manifest import SegmentRow
from magnetar_storage.session_store.session_ids import SESSIONS, first_above
from magnetar_storage.session_store.session_record import (
    SESSIONS_PREFIX,
    SessionRecord,
    SessionState,
    key_of,
    number_of,
)
from magnetar_storage.session_store.settled_files import ObjectNames, SettledFiles
from magnetar_storage.wal.requests import patiently_in


class Session:
    """One session as this process last read or wrote it."""

    def __init__(self, number: int, record: SessionRecord, version: Version) -> None:
        self.number = number
        self.record = record
        self.version = version
        self.manifest = 0
        """The manifest that `rows` come from."""
        self.rows: dict[SegmentId, SegmentRow] = {}
        """The segments in packs that were not deleted."""
        self.users: Counter[int] | None = None
        """The number of segments in each pack; None until it is needed."""
        self.ids_written = 0
        """The ids of deleted segments in all changes of the record since its manifest."""
        self.pack_bytes: dict[int, int] = {}
        """The sizes of the packs that this process has written."""
        self.objects: set[int] = set()
        """The packs and manifests of the session that may exist, as far as this process knows."""


Change = Callable[[SessionRecord], SessionRecord | None]
"""Returns a changed record, or None to leave it as it is; raises if it must not be changed."""


class Sessions:
    """Reads and changes the records and manifests of all sessions."""

    def __init__(
        self,
        objects: Objects,
        names: ObjectNames,
        worker: Worker,
        clock: Clock,
        metadata: MetadataStore,
        guard: Guard | None,
        files: SettledFiles,
    ) -> None:
        """`guard` is a condition of each change; `files` is told of the files of segments."""
        self._objects = objects
        self._names = names
        self._worker = worker
        self._clock = clock
        self._metadata = metadata
        self._guard = guard
        self._files = files
        self._known: dict[int, Session] = {}
        self._last_object = 0
        self._changing: KeyedMutex[int] = KeyedMutex(clock)
        self.own = 0
        """The number of the session of this process."""

    async def begin(self, owner: str) -> Session:
        """Create the record of a new session, with a number that no session has had.

        `Incomplete` if the metadata does not know a session that has objects.
        """
        # In this order: a record is there before the objects of its session.
        logs = partial(older_metadata.newest_log, self._objects, self._names.prefix)
        newest = await patiently_in(self._worker, self._clock, logs)
        number = max(await self._numbers(), default=0)
        # promise: the number of a session that died is not given again, with older metadata
        if newest > number:
            raise _older(number, newest)
        record = SessionRecord(owner=owner)
        while True:
            number += 1
            if number >= SESSIONS:
                raise Unavailable(f"all {SESSIONS - 1} numbers of sessions were used")
            if await self._is_used(number):
                continue  # by another process, which was faster
            try:
                # promise[ABSENT -> None]: no two processes have the same session
                version = await self._metadata.put(
                    key_of(number), record.encode(), ABSENT, guard=self._guard
                )
            except BadVersion:
                continue  # another process took it
            self.own = number
            found = self._known[number] = Session(number, record, version)
            return found

    async def in_state(self, *states: SessionState) -> list[int]:
        """Return the numbers of the sessions in one of these states, in order."""
        found: list[int] = []
        after = ""
        while listed := await self._metadata.read_under(SESSIONS_PREFIX, after):
            for after, value in listed:
                if isinstance(value, Corrupt):
                    raise value
                number = number_of(after)
                if number and SessionRecord.decode(after, value.value).state in states:
                    found.append(number)
        return found

    async def forget(self, session: Session) -> None:
        """Delete the record of a session that is gone, and not the last one: its number is not
        used again, since new ones are above the last one."""
        # promise[always]: no number is used again
        if session.number < self.own:
            await self._metadata.delete(key_of(session.number), session.version, self._guard)
            self._known.pop(session.number)

    async def load(self, number: int) -> Session | None:
        """Read the present state of a session; None if there is no such session.

        `Unavailable` if its manifest is missing, `Corrupt` if that or the record is damaged.
        """
        async with self._changing.held(number):
            while True:
                found = await self._metadata.get(key_of(number))
                if found is None:
                    return None
                record = SessionRecord.decode(key_of(number), found.value)
                session = self._known.setdefault(number, Session(number, record, found.version))
                session.record, session.version = record, found.version
                try:
                    await self._load_rows(session)
                except NoObject as error:
                    # Another process has written the next one, and deleted this one.
                    again = await self._metadata.get(key_of(number))
                    if again is not None and again.version == found.version:
                        raise _no_manifest(number, error) from error
                    continue
                return session

    async def refresh(self, session: Session) -> None:
        """Read the record of a session whose manifest no other process changes."""
        async with self._changing.held(session.number):
            await self._refresh(session)

    def known(self, number: int) -> Session | None:
        """Return a session as it was last read or written; None if it was never."""
        return self._known.get(number)

    async def change(self, session: Session, change: Change) -> None:
        """Change the record, which `change` may get several times, each time as it is then.

        Durable on return.  After `Unavailable` the outcome is unknown; the next change finds out.
        """
        async with self._changing.held(session.number):
            while True:
                record = change(session.record)
                if record is None:
                    return
                try:
                    # promise[session.version, guard -> None, guard]: a record is changed only as it
                    #   was read
                    session.version = await self._metadata.put(
                        key_of(session.number), record.encode(), session.version, guard=self._guard
                    )
                except BadVersion:
                    # By another process, or by an earlier call whose outcome was unknown.
                    await self._refresh(session)
                    continue
                session.record = record
                return

    def new_object(self, session: Session) -> int:
        """Return a number for an object of a session, which no object has had."""
        number = self.new_number()
        session.objects.add(number)
        return number

    def new_number(self) -> int:
        """Return a number that was never returned, in any process."""
        self._last_object = first_above(self._last_object, self.own)
        return self._last_object

    async def write_manifest(self, session: Session, rows: dict[SegmentId, SegmentRow]) -> int:
        """Store a manifest; it counts once the record names its number, which is returned."""
        number = self.new_object(session)
        name = self._names.of(session.number, number)

        def job() -> None:
            packs.store(self._objects, name, [manifest.encode(session.number, rows)])

        await self._worker.run(job)
        return number

    def use(self, session: Session, rows: dict[SegmentId, SegmentRow]) -> None:
        """Use the rows of the manifest that the record names now."""
        before, session.manifest = session.rows, session.record.manifest
        session.users = None
        session.ids_written = 0
        for segment in before.keys() - rows.keys():
            self._files.drop(segment)
        session.rows = rows
        for segment, row in rows.items():
            if before.get(segment) is not row:
                self._files.put(segment, row)

    async def delete_unlisted(
        self, session: Session, listed: Mapping[SegmentId, SegmentRow]
    ) -> None:
        """Delete the packs that its manifest, which lists `listed`, does not need, and former ones.

        An object that cannot be deleted now is deleted by a later call.
        """
        needed = manifest.packs_of(listed.values()) | {session.manifest}
        await self.delete_objects(session, session.objects - needed)

    async def delete_objects(self, session: Session, numbers: Iterable[int]) -> None:
        """Delete packs and manifests that nobody needs; those that were deleted are forgotten."""
        doomed = sorted(numbers)
        for number in doomed:
            name = self._names.of(session.number, number)
            await self._worker.run(partial(self._objects.delete, name))
            session.objects.discard(number)
            session.pack_bytes.pop(number, None)

    async def delete_all_objects(self, session: Session) -> None:
        """Delete all objects of a session of which no segment is left."""
        for name in await self.object_names(session):
            await self._worker.run(partial(self._objects.delete, name))
        session.objects.clear()

    async def object_names(self, session: Session) -> list[str]:
        """Return the names of the present objects of a session, without its log."""
        prefix = self._names.directory(session.number)
        return await self._worker.run(
            lambda: [listed.name for listed in self._objects.list(prefix)]
        )

    def drop(self, session: Session, segment: SegmentId) -> None:
        """Forget a deleted segment."""
        row = session.rows.pop(segment, None)
        if row is not None and session.users is not None:
            session.users.subtract(manifest.packs_of([row]))
        self._files.drop(segment)

    def drop_deleted(self, session: Session) -> None:
        """Forget the segments that the record says are deleted."""
        for segment in session.record.deleted & session.rows.keys():
            self.drop(session, segment)

    def needless(self, session: Session, rows: Iterable[SegmentRow]) -> set[int]:
        """Return the packs of segments that were dropped which no other segment needs."""
        if session.users is None:
            # Once for all segments: many are deleted one after the other.
            session.users = Counter()
            for each in session.rows.values():
                session.users.update(manifest.packs_of([each]))
        return {pack for pack in manifest.packs_of(rows) if not session.users[pack]}

    async def shorten(self, session: Session) -> None:
        """Replace the manifest of a settled session by one without the deleted segments.

        The record names these until then, and is written with each deletion.
        """
        before, deleted, rows = session.record.manifest, session.record.deleted, dict(session.rows)
        number = await self.write_manifest(session, rows)

        def shortened(record: SessionRecord) -> SessionRecord | None:
            # promise: what another process has deleted meanwhile does not come back
            if record.manifest != before:
                return None
            return replace(record, manifest=number, deleted=record.deleted - deleted)

        await self.change(session, shortened)
        if session.record.manifest == number:
            session.manifest, session.ids_written = number, 0
            await self.delete_unlisted(session, rows)
        else:
            await self.delete_objects(session, [number])

    async def _is_used(self, number: int) -> bool:
        """Return whether there are segments of a session, which must have a record then."""
        packed = partial(older_metadata.has_objects, self._objects, self._names.directory(number))
        if not await patiently_in(self._worker, self._clock, packed):
            return False
        # promise: the number of a session that was closed is not given again, with older metadata
        if await self._metadata.get(key_of(number)) is None:
            raise _older(number - 1, number)
        return True

    async def _numbers(self) -> list[int]:
        """Return the numbers of all sessions, in order."""
        found: list[int] = []
        after = ""
        while keys := await self._metadata.list(SESSIONS_PREFIX, after):
            found += [number for key in keys if (number := number_of(key)) is not None]
            after = keys[-1]
        return found

    async def _refresh(self, session: Session) -> None:
        key = key_of(session.number)
        found = await self._metadata.get(key)
        if found is None:
            raise Fenced(f"the record of session {session.number} was deleted")
        session.record, session.version = SessionRecord.decode(key, found.value), found.version

    async def _load_rows(self, session: Session) -> None:
        record = session.record
        if record.manifest != session.manifest:
            rows: dict[SegmentId, SegmentRow] = {}
            if record.manifest and record.state is not SessionState.GONE:
                name = self._names.of(session.number, record.manifest)
                rows = await self._worker.run(
                    lambda: manifest.decode(name, self._whole(name), session.number)
                )
            session.objects |= manifest.packs_of(rows.values()) | {record.manifest}
            self.use(session, rows)
        self.drop_deleted(session)

    def _whole(self, name: str) -> bytes:
        return self._objects.read(name, 0, self._objects.size(name))


def _older(known: int, found: int) -> Incomplete:
    return Incomplete(
        f"the metadata is older than the objects: it knows sessions up to {known}, and there are"
        f" objects of session {found}: {older_metadata.REMEDY}"
    )


def _no_manifest(number: int, error: NoObject) -> Unavailable:
    return Unavailable(
        f"the object that lists the segments of session {number} is missing ({error}): the metadata"
        " is older than the objects, or the object was lost. Restore the newer metadata, or put the"
        " object back from the versions of the bucket, as docs/cluster.md describes"
    )
