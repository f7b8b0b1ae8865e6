"""Rebuilding the records of all logs from the origins and the content of segments.

A segment that is not here, or is damaged, is listed as the object that was found of it, if any; a
whole one is listed with its object as a copy.

Values that are not in segments are those of a new log: properties, and whether the log was
terminated.  Nothing is deleted: a segment that no record lists goes to quarantine at the next
start.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from magnetar_storage.cursors.attached_state import AttachedState
from magnetar_storage.cursors.cursor_log import DurableCursor, read_cursors
from magnetar_storage.errors import Corrupt, NoSegment
from magnetar_storage.interfaces import (
    Sealed,
    SegmentCopy,
    SegmentId,
    SegmentKind,
    SegmentOrigin,
    SegmentStore,
)
from magnetar_storage.log.compacted_record import Compacted
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.sparse_segment import SparseMap, SparseReader
from magnetar_storage.rebuild.objects import ObjectSegment, Unusable
from magnetar_storage.rebuild.segment_list import Placed, SegmentList, listed

READ_BYTES: Final = 4 << 20
"""The approximate bytes that are read at a time to find damage."""
Progress = Callable[[int], None]
"""Called with the number of segments examined since the last call."""


class LogSegment(NamedTuple):
    """One segment of a log."""

    segment: SegmentId
    origin: SegmentOrigin
    end: Sealed
    copy: SegmentCopy | None = None
    """The object that has the same entries; the only copy if the segment is not in the store."""


class Kept(NamedTuple):
    """A sparse segment with its map of offsets."""

    part: LogSegment
    map: SparseMap


@dataclass
class RebuiltLog:
    """A log's record, as far as it can be rebuilt."""

    record: LogRecord
    cursors: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    """Descriptions of data that could not be rebuilt, or that is inconsistent."""


@dataclass
class Rebuilt:
    """The logs that were rebuilt from the segments of a store."""

    logs: dict[str, RebuiltLog] = field(default_factory=dict)
    """The rebuilt logs by the keys of their records."""
    nameless: dict[SegmentId, RebuiltLog] = field(default_factory=dict)
    """Logs of one segment each, with messages whose log is unknown."""
    unlisted: dict[SegmentId, str] = field(default_factory=dict)
    """Segments that belong to no log, with the reason."""
    segments: int = 0
    """The number of segments in the store."""
    objects: int = 0
    """The number of segments that were listed as objects."""
    unusable: list[Unusable] = field(default_factory=list)
    """The objects that contradict what is in the store."""


async def rebuilt(
    store: SegmentStore,
    now_ms: int,
    progress: Progress,
    objects: Mapping[SegmentId, ObjectSegment] = MappingProxyType({}),
) -> Rebuilt:
    """Read the origin of every segment, and find out how the segments of a log belong together.

    This settles all segments.  An object is listed as the only copy if the store lacks its segment,
    or has it damaged; else as a further copy.
    """
    found = Rebuilt()
    logs: dict[str, list[LogSegment]] = {}
    missing = dict(objects)
    async for number in store.segments():
        found.segments += 1
        progress(1)
        try:
            end = await store.recover(number)
            origin = await store.origin(number) if end.entries else None
        except Corrupt as error:
            found.unlisted[number] = str(error)
            continue
        copy = None
        if end.entries and number in missing:
            copy = _copy(found, missing[number], origin, end)
            if copy and (damage := await _damage(store, number, end)) is not None:
                found.unlisted[number] = damage
                continue
            # promise: what is here is read from here
            missing.pop(number)
        if origin is not None:
            logs.setdefault(origin.log, []).append(LogSegment(number, origin, end, copy))
        elif not end.entries:
            found.unlisted[number] = "it is empty"
        elif await _holds_messages_only(store, number, end):
            segment = Segment(number, now_ms, *end, sealed_ms=now_ms, copy=copy)
            found.nameless[number] = RebuiltLog(LogRecord(segments=(segment,)))
        else:
            found.unlisted[number] = "it does not say of which topic it has cursors or other state"
    _add_objects(found, logs, missing, now_ms)
    for key, parts in sorted(logs.items()):
        found.logs[key] = await _Log(store, parts, now_ms).rebuilt()
        record = found.logs[key].record
        remote = {one.id for one in record.segments if one.is_remote}
        found.objects += len(remote)
        unlisted = [part for part in sorted(parts) if part.segment not in record.listed | remote]
        for part in unlisted:
            if part.copy is not None and part.copy.is_only:
                why = f"{key} has other entries at its place"
                found.unusable.append(Unusable(part.copy.name, part.copy.place, why))
            else:
                found.unlisted[part.segment] = f"{key} does not need it any more"
    return found


async def _damage(store: SegmentStore, number: SegmentId, end: Sealed) -> str | None:
    """Read all entries of a segment; return the reason why they cannot be read, if so."""
    reader = await store.reader(number)
    try:
        entry = 0
        while entry < end.entries:
            run = await reader.read(entry, end.entries - entry, READ_BYTES)
            entry += len(run.payloads)
    except Corrupt as error:
        return str(error)
    finally:
        reader.close()
    return None


def _copy(
    found: Rebuilt, one: ObjectSegment, origin: SegmentOrigin | None, end: Sealed
) -> SegmentCopy | None:
    """Return the copy of a whole segment that an object is; None if it has other entries."""
    # promise: an object that another directory has written does not become a copy of a file
    if (one.origin, one.end) != (origin, end):
        why = f"the file of segment {one.segment} that is here has other entries"
        found.unusable.append(Unusable(one.copy.name, one.copy.place, why))
        return None
    return replace(one.copy, is_only=False)


def _add_objects(
    found: Rebuilt,
    logs: dict[str, list[LogSegment]],
    objects: Mapping[SegmentId, ObjectSegment],
    now_ms: int,
) -> None:
    """Add the segments that are only objects to the logs, or to the nameless ones."""
    for number, one in objects.items():
        if one.origin is not None:
            part = LogSegment(number, one.origin, one.end, one.copy)
            logs.setdefault(one.origin.log, []).append(part)
        elif one.end.entries:
            segment = Segment(number, now_ms, *one.end, sealed_ms=now_ms, copy=one.copy)
            found.nameless[number] = RebuiltLog(LogRecord(segments=(segment,)))
            found.objects += 1


async def _holds_messages_only(store: SegmentStore, number: SegmentId, end: Sealed) -> bool:
    """Return whether the first and the last entry hold messages, unlike state and maps."""
    reader = await store.reader(number)
    try:
        first = await reader.messages_before(1)
        return bool(first) and await reader.messages_before(end.entries - 1) < end.messages
    finally:
        reader.close()


class _Log:
    """The segments of one log."""

    def __init__(self, store: SegmentStore, parts: Sequence[LogSegment], now_ms: int) -> None:
        self._store = store
        self._now_ms = now_ms
        self._of: dict[SegmentKind, list[LogSegment]] = {kind: [] for kind in SegmentKind}
        for part in sorted(parts):
            self._of[part.origin.kind].append(part)
        self._epoch = max(part.origin.epoch for part in parts)
        self._notes: list[str] = []

    async def rebuilt(self) -> RebuiltLog:
        """Rebuild the record; damaged data is left out, with a note."""
        cursor_segment, cursors = await self._cursors()
        ends = [cursor.highest + 1 for cursor in cursors]
        parts = (part for some in self._of.values() for part in some)
        end = max([*ends, *(part.origin.first_offset for part in parts)])
        segments = listed(await self._placed(), end, self._now_ms)
        self._note_list(segments)
        compacted, messages = await self._compacted(), self._of[SegmentKind.MESSAGES]
        record = LogRecord(
            epoch=self._epoch + 1,
            first_offset=segments.first_offset,
            first_messages=segments.first_messages,
            segments=segments.segments,
            cursor_segment=cursor_segment,
            # The log's next owner recognizes a run that is not needed by its header.
            delay_segments=tuple(part.segment for part in self._of[SegmentKind.DELAYS]),
            compacted=compacted,
            # Compacted data may have heads that are not told by its origin: then look at each.
            has_broker_metadata=bool(compacted)
            or any(part.origin.first_messages is not None for part in messages),
        )
        return RebuiltLog(record, tuple(cursor.name for cursor in cursors), self._notes)

    def _note_list(self, segments: SegmentList) -> None:
        if segments.absent:
            self._notes.append(
                f"{segments.absent} entries between others are not there: they were deleted "
                "because no subscription needed them, or their segments are missing"
            )
        if segments.left_out:
            self._notes.append(
                f"segments {_named(segments.left_out)} are not listed: they cannot precede the "
                "others, as those of a deleted topic of the same name"
            )

    # Messages ---------------------------------------------------------------------

    async def _placed(self) -> list[Placed]:
        """Return all segments with their places, partly kept segments included."""
        placed: dict[SegmentId, Placed] = {}
        for part in self._of[SegmentKind.MESSAGES]:
            origin = part.origin
            segment = Segment(part.segment, origin.created_ms, *part.end, copy=part.copy)
            placed[part.segment] = Placed(origin.first_offset, segment, origin.first_messages)
        # The oldest first: a later one was made from it, so the older one has all its entries.
        for kept in await self._kept():
            for one in _replaced(kept):
                placed.setdefault(one.segment.id, one)
        return list(placed.values())

    async def _kept(self) -> list[Kept]:
        """Return the sparse segments that are complete."""
        found: list[Kept] = []
        for part in self._of[SegmentKind.KEPT]:
            try:
                reader = await SparseReader.open(self._store, part.segment)
            except (Corrupt, NoSegment) as error:
                self._notes.append(f"segment {part.segment} cannot be used: {error}")
                continue
            reader.close()
            if reader.map.entries == part.end.entries:  # else a crash has cut it short
                found.append(Kept(part, reader.map))
        return found

    # Cursors ------------------------------------------------------------------------

    async def _cursors(self) -> tuple[SegmentId | None, list[DurableCursor]]:
        """Return the newest cursor segment that is complete, and its cursors."""
        chosen: tuple[SegmentId | None, list[DurableCursor]] = None, []
        for part in reversed(self._of[SegmentKind.CURSORS]):
            attached: dict[int, AttachedState] = {}
            try:
                numbered = await read_cursors(self._store, part.segment, attached)
            except (Corrupt, NoSegment) as error:
                self._notes.append(f"the cursors in segment {part.segment} are lost: {error}")
                continue
            # There are two only if a snapshot was being written, or had just been: one that was cut
            # short lacks the last cursors.
            if chosen[0] is None or len(numbered) > len(chosen[1]):
                chosen = part.segment, list(numbered.values())
        if chosen[0] is None and not self._of[SegmentKind.CURSORS]:
            self._notes.append("it has no subscriptions, or those that it had are lost")
        return chosen

    # Compacted data -----------------------------------------------------------------

    async def _compacted(self) -> Compacted | None:
        """Return the newest compacted data whose parts are all present."""
        there = {part.segment for part in self._of[SegmentKind.COMPACTED]}
        found: Compacted | None = None
        for part in self._of[SegmentKind.COMPACTED]:
            one = await self._listed_in(part)
            if one is None or not one.segments <= there:
                continue
            if found is None or one.horizon >= found.horizon:
                found = one
        if there and found is None:
            self._notes.append("its compacted data is incomplete: the topic is compacted again")
        return found

    async def _listed_in(self, part: LogSegment) -> Compacted | None:
        """Return the parts that the last part of compacted data lists; None in any other part."""
        reader = await self._store.reader(part.segment)
        try:
            run = await reader.read(part.end.entries - 1, 1, 1)
            return Compacted.parse(run.payloads[0])
        except Corrupt as error:
            self._notes.append(f"compacted data in segment {part.segment} is damaged: {error}")
            return None
        finally:
            reader.close()


def _replaced(kept: Kept) -> list[Placed]:
    """Return the segments that a sparse segment keeps a part of, as the record lists them."""
    segment, origin, end, _ = kept.part
    bytes_each = end.size / max(end.entries, 1)
    placed = []
    for one in origin.replaces:
        stop = one.first_offset + one.entries
        held = sum(b - a for a, b in kept.map.runs(one.first_offset, stop))
        listed_as = Segment(
            one.id, one.created_ms, one.entries, one.messages, int(held * bytes_each),
            one.sealed_ms, held, segment if held else None,
        )  # fmt: skip
        placed.append(Placed(one.first_offset, listed_as, one.first_messages))
    return placed


def _named(segments: Sequence[SegmentId]) -> str:
    return ", ".join(map(str, segments[:10])) + ("" if len(segments) <= 10 else ", ...")
