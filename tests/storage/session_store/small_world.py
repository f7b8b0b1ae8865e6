"""Processes with low limits over shared stores, and short words for what tests let them do."""

from fakes.faulty_objects import Fault
from fakes.origins import MESSAGES
from fakes.session_stores import SMALL, Process, SessionWorld
from fakes.unreliable_metadata import UnreliableMetadata
from fakes.world import ManualClock
from magnetar_storage.interfaces import SegmentWriter
from magnetar_storage.session_store.limits import SessionLimits
from magnetar_storage.session_store.session_record import SessionRecord, key_of


class World(SessionWorld):
    """Processes, and short words for what tests let them do."""

    def __init__(self, limits: SessionLimits = SMALL) -> None:
        clock = ManualClock()
        self.metadata: UnreliableMetadata
        super().__init__(clock, 1, limits, UnreliableMetadata(clock))
        self.one, self.other = self.start("broker-1"), self.start("broker-2")

    def segment(self, process: Process, *payloads: bytes) -> SegmentWriter:
        writer = self.do(process.store.create(MESSAGES))
        for payload in payloads:
            self.append(writer, payload)
        return writer

    def append(self, writer: SegmentWriter, *payloads: bytes) -> list[BaseException | None]:
        outcomes: list[BaseException | None] = []
        writer.append(list(payloads), [1] * len(payloads), outcomes.append)
        while not outcomes:
            assert self.clock.step() or self.step()
        return outcomes

    def entries(self, process: Process, segment: int) -> list[bytes]:
        reader = self.do(process.store.reader(segment))
        found: list[bytes] = []
        while part := self.do(reader.read(len(found), 2, 100)).payloads:
            found += part
        return found

    def record(self, process: Process) -> SessionRecord:
        key = key_of(process.store.session)
        found = self.do(self.metadata.get(key))
        assert found is not None
        return SessionRecord.decode(key, found.value)

    def orphans(self, process: Process) -> list[int]:
        async def listed() -> list[int]:
            return [segment async for segment in process.store.segments()]

        return self.do(listed())

    def end(self, process: Process) -> None:
        """Kill a process, and let the other one end its session."""
        process.kill()
        self.do(self.other.store.end_session(process.store.session))

    def fail(self, operation: str, what: str = "", fault: Fault = Fault.LOST) -> None:
        """Let operations on objects fail whose names contain `what`."""
        self.objects.fault = lambda tried, name: (
            fault if tried == operation and what in name else None
        )


def slot_with(world: World, text: bytes) -> str:
    """Return the name of the slot that has a payload."""
    (name,) = (
        name
        for name in world.objects.names()
        if name.startswith("wal/00000001/") and text in world.objects.content(name)
    )
    return name
