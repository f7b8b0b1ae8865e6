"""Deletions from a session with very many segments: what they write, and their errors."""

from collections.abc import Sequence

import pytest

from fakes.faulty_objects import Fault
from fakes.session_stores import SessionWorld
from fakes.unreliable_metadata import Fate, UnreliableMetadata
from fakes.world import ManualClock, start
from magnetar_storage.errors import Unavailable
from magnetar_storage.interfaces import Absent, Guard, Lease, Version
from magnetar_storage.session_store import manifest
from magnetar_storage.session_store.manifest import SegmentRow
from magnetar_storage.session_store.session_ids import SESSIONS
from magnetar_storage.session_store.session_record import (
    SessionRecord,
    SessionState,
    key_of,
)
from magnetar_storage.session_store.settled_files import ObjectNames

FORMER = 1
"""The session that has ended."""
NAMES = ObjectNames("")


class Metadata(UnreliableMetadata):
    """Counts the bytes that are written to records of sessions."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.sizes: list[int] = []

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        self.sizes.append(len(value))
        return await super().put(key, value, expect, lease, guard)


class World(SessionWorld):
    """A process, and a session that another one has left with empty segments."""

    def __init__(self, count: int) -> None:
        clock = ManualClock()
        self.metadata: Metadata
        super().__init__(clock, 1, metadata=Metadata(clock))
        self.segments = [(n + 1) * SESSIONS + FORMER for n in range(count)]
        rows = dict.fromkeys(self.segments, SegmentRow())
        self.first = SESSIONS + FORMER
        self.objects.put(NAMES.of(FORMER, self.first), manifest.encode(FORMER, rows))
        record = SessionRecord(SessionState.SETTLED, manifest=self.first)
        self.do(self.metadata.put(key_of(FORMER), record.encode()))
        self.process = self.start()
        self.metadata.sizes.clear()
        self.manifests: list[int] = []
        upload = self.objects.upload

        def counted(name: str, size: int, *more: object) -> None:
            self.manifests.append(size)
            upload(name, size, *more)  # type: ignore[arg-type]

        self.objects.upload = counted  # type: ignore[method-assign, assignment]

    def delete(self, segments: Sequence[int]) -> None:
        """Delete segments at the same time."""
        deleting = [start(self.process.store.delete(segment)) for segment in segments]
        self.settle()
        assert [each.result() for each in deleting] == [None] * len(segments)

    def left(self) -> list[int]:
        async def listed() -> list[int]:
            return [segment async for segment in self.start().store.segments()]

        return self.do(listed())


def test_what_is_deleted_at_the_same_time_is_written_once() -> None:
    world = World(2000)
    world.delete(world.segments[:1999])
    assert sum(world.metadata.sizes) + sum(world.manifests) < 1999 * 100
    assert len(world.metadata.sizes) <= 3
    assert world.left() == world.segments[1999:]
    world.delete(world.segments[1999:])
    assert world.objects.names() == []


def test_what_is_deleted_one_by_one_costs_as_much_in_records_as_in_manifests() -> None:
    world = World(1500)
    for segment in world.segments[:1400]:
        world.do(world.process.store.delete(segment))
    assert max(world.metadata.sizes) < 300 * 20
    assert 2 <= len(world.manifests) <= 5
    assert world.left() == world.segments[1400:]


def test_each_of_those_deleted_at_the_same_time_has_the_error() -> None:
    world = World(5)
    store = world.process.store
    world.metadata.fates += [Fate.ANSWERED, Fate.NOT_MADE]
    deleting = [start(store.delete(segment)) for segment in world.segments]
    world.settle()
    errors: list[Unavailable] = []
    assert deleting[0].result() is None
    for each in deleting[1:]:
        with pytest.raises(Unavailable) as caught:
            each.result()
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 4
    assert world.left() == world.segments[1:]
    world.delete(world.segments)
    assert world.left() == []


def test_objects_that_could_not_be_deleted_go_later() -> None:
    world = World(3)
    world.objects.fault = lambda operation, name: Fault.BUSY if operation == "delete" else None
    deleting = [start(world.process.store.delete(segment)) for segment in world.segments]
    world.settle()
    with pytest.raises(Unavailable):
        deleting[-1].result()
    world.objects.fault = None
    world.delete(world.segments)
    assert world.left() == []
    world.settle()
    assert world.objects.names() == []


def test_what_another_process_deletes_meanwhile_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("magnetar_storage.session_store.deleting.MOST_DELETED", 3)
    world = World(9)
    other = world.start()
    upload, theirs = world.objects.upload, list(world.segments[3:6])

    def meanwhile(name: str, size: int, *more: object) -> None:
        """Let the other process replace the manifest before this one does."""
        if theirs:
            deleting = [start(other.store.delete(theirs.pop())) for _ in range(3)]
            while not all(each.done() for each in deleting):
                assert world.clock.step() or any(thread.step() for thread in other.threads)
        upload(name, size, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(world.objects, "upload", meanwhile)
    world.delete(world.segments[:3])
    assert not theirs
    assert len(world.manifests) == 2
    assert world.left() == world.segments[6:]
