"""A `MemoryStore` whose writes fail, and whose reads and creations wait, when a test wants it."""

from fakes.memory_store import MemoryReader, MemoryStore, MemoryWriter
from fakes.world import ManualClock, ManualPromise
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Run, SegmentId, SegmentOrigin


class MoodyReader(MemoryReader):
    """Reads when its store permits."""

    def __init__(self, reader: MemoryReader, segment: SegmentId, store: "MoodyStore") -> None:
        super().__init__(reader._content)
        self._segment = segment
        self._store = store

    async def read(self, first: int, max_entries: int, max_bytes: int) -> Run:
        self._store.reads += 1
        if self._store.read_gate is not None:
            await self._store.read_gate
        if self._store.read_failure is not None:
            raise self._store.read_failure
        if self._segment in self._store.rotten and first < self._content.durable:
            raise Corrupt("file", 0, "rot", self._segment, first, first)
        return await super().read(first, max_entries, max_bytes)

    async def messages_before(self, entry: int) -> int:
        if self._store.count_gate is not None:
            await self._store.count_gate
        return await super().messages_before(entry)

    def messages_in(self, entry: int) -> int | None:
        return super().messages_in(entry) if self._store.count_gate is None else None


class MoodyStore(MemoryStore):
    """Works normally until one of its switches is set."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.create_failure: Exception | None = None
        self.create_gate: ManualPromise | None = None
        self.open_failure: Exception | None = None
        self.read_failure: Exception | None = None
        self.read_gate: ManualPromise | None = None
        self.count_gate: ManualPromise | None = None
        """If set, readers wait for it before they count messages, as without an index in memory."""
        self.rotten: set[SegmentId] = set()
        self.reads = 0
        self.created: list[SegmentId] = []

    async def create(self, origin: SegmentOrigin, beyond: SegmentId = 0) -> MemoryWriter:
        if self.create_gate is not None:
            await self.create_gate
        if self.create_failure is not None:
            raise self.create_failure
        writer = await super().create(origin, beyond)
        self.created.append(writer.segment)
        return writer

    async def reader(self, segment: SegmentId) -> MoodyReader:
        if self.open_failure is not None:
            raise self.open_failure
        return MoodyReader(await super().reader(segment), segment, self)

    def break_writers(self, error: Exception) -> None:
        """Fail pending appends, and refuse further ones to these segments."""
        for content in list(self._segments.values()):
            if content.sealed is not None:
                continue
            content.refusal = content.refusal or error
            del content.payloads[content.durable :]
            del content.counts[content.durable :]
            del content.messages[content.durable + 1 :]
            pending = list(content.pending)
            content.pending.clear()
            for _, done in pending:
                done(error)

    def crash(self) -> None:
        """Drop pending appends without a report, as if the owner had crashed."""
        for content in self._segments.values():
            del content.payloads[content.durable :]
            del content.counts[content.durable :]
            del content.messages[content.durable + 1 :]
            content.pending.clear()

    def ids(self) -> set[SegmentId]:
        """Return the ids of the existing segments."""
        return set(self._segments)
