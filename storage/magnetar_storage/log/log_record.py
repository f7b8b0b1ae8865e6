"""The record of a log in the metadata store: the versioned list of its segments.

The value is JSON, so that a person can read it.  A segment whose `entries` is null is
not settled: a new owner of the log recovers it first.  Offsets are derived: the first
segment starts at `first_offset`, each next one where the one before it ends.

A segment of which few entries were needed may have been *rewritten*: its remaining `kept`
entries are in another segment of the store, the sparse segment `kept_in`.  It still counts all of
its entries, so no position changes.

A whole segment may have a `copy` in a store of objects.  The record lists it before it is uploaded,
and until it is deleted: no object is unknown.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Sealed, SegmentCopy, SegmentId
from magnetar_storage.log.compacted_record import Compacted

RECORD_VERSION = 1
REWRITTEN_VERSION = 2
"""The version of a record with rewritten segments, which earlier releases would misread."""
COMPACTED_VERSION = 3
"""The version of a record with compacted data, which earlier releases would not keep."""
TERMINATED_VERSION = 4
"""The version of a terminated log's record: earlier releases would append to the log."""
CREATED_VERSION = 5
"""The version of a record with the log's creation time, which earlier releases would not keep."""
LOST_VERSION = 6
"""The version of a record with damaged entries set aside: earlier releases would stop at them."""
BROKER_METADATA_VERSION = 7
"""The version of the record of a log whose entries may begin with broker entry metadata: earlier
releases would send that to clients that did not ask for it."""
COPIED_VERSION = 8
"""The version of a record with copies of segments, which earlier releases would miss."""
KEEPING_VERSION = 9
"""The version of a record with times of trash, which earlier releases would delete too early."""

OPTIONAL = ("entries", "kept", "kept_in", "cursor_segment")
"""Fields that may be null; all other fields with a single value are numbers."""


@dataclass(frozen=True)
class Segment:
    """One element of a log's segment list."""

    id: SegmentId
    created_ms: int
    entries: int | None = None
    messages: int = 0
    size: int = 0
    """The bytes of the remaining payloads."""
    sealed_ms: int = 0
    kept: int | None = None
    """The number of remaining entries of a rewritten segment; None if the segment is whole."""
    kept_in: SegmentId | None = None
    """The sparse segment that holds the remaining entries; None if there are none."""
    lost: tuple[tuple[int, int], ...] = ()
    """Damaged entries that count as deleted, in order: each from the first to before the second."""
    copy: SegmentCopy | None = None
    """The copy in a store of objects, complete or not."""

    def settled(self, end: Sealed, now_ms: int) -> "Segment":
        """Return the segment with its end set."""
        return replace(
            self, entries=end.entries, messages=end.messages, size=end.size, sealed_ms=now_ms
        )

    @property
    def is_whole(self) -> bool:
        return self.kept is None

    @property
    def is_copied(self) -> bool:
        """Whether there is a complete copy in a store of objects."""
        return self.copy is not None and self.copy.completed_ms > 0

    @property
    def is_remote(self) -> bool:
        """Whether the entries are only in a store of objects."""
        return self.copy is not None and self.copy.is_only

    @property
    def stored_in(self) -> SegmentId | None:
        """The segment of the store that holds the entries; None if no entry is in the store."""
        if self.is_remote:
            return None
        return self.id if self.kept is None else self.kept_in

    def has_lost(self, first: int, last: int) -> bool:
        """Return whether the entries first..last were set aside."""
        return any(start <= first and last < stop for start, stop in self.lost)

    @property
    def held(self) -> int:
        """The number of entries stored; 0 while the segment is not settled."""
        return (self.entries or 0) if self.kept is None else self.kept


@dataclass(frozen=True)
class LogRecord:
    """A log's record, changed by compare-and-set; a failure means that another owner took over."""

    epoch: int = 0
    first_offset: int = 0
    first_messages: int = 0
    segments: tuple[Segment, ...] = ()
    cursor_segment: SegmentId | None = None
    delay_segments: tuple[SegmentId, ...] = ()
    trash: tuple[SegmentId, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    compacted: Compacted | None = None
    terminated: bool = False
    """Whether nothing can be appended ever again."""
    terminated_at: tuple[SegmentId, int] | None = None
    """The position of the last entry at that time, if any; kept when the entry is deleted."""
    created_ms: int = 0
    """The time of the log's creation; 0 if a release before version 5 created it."""
    has_broker_metadata: bool = False
    """Whether entries may begin with broker entry metadata."""
    copy_trash: tuple[SegmentCopy, ...] = ()
    """Copies to be deleted, of which some may never have been made."""
    unlisted_ms: dict[str, int] = field(default_factory=dict)
    """When each element of `trash` and `copy_trash` became trash, by the id of the segment or the
    name of the object; empty if the engine keeps no trash."""

    @property
    def stored(self) -> set[SegmentId]:
        """The segments of the store that hold the log's entries."""
        return {s.stored_in for s in self.segments if s.stored_in is not None}

    @property
    def listed(self) -> set[SegmentId]:
        """All segments of the store that belong to the log, segments to be deleted included."""
        cursors = set() if self.cursor_segment is None else {self.cursor_segment}
        cursors.update(self.delay_segments)
        compacted = set() if self.compacted is None else self.compacted.segments
        return self.stored | cursors | compacted | set(self.trash)

    # Changes --------------------------------------------------------------------

    def with_lost(self, lost: Mapping[SegmentId, Iterable[tuple[int, int]]]) -> "LogRecord":
        """Count more entries, by segment, as deleted; segments not listed are ignored."""
        segments = tuple(
            replace(s, lost=_united(s.lost, lost[s.id])) if s.id in lost else s
            for s in self.segments
        )
        return replace(self, segments=segments)

    def with_segment(self, changed: Segment) -> "LogRecord":
        """Replace the segment with the id of `changed`."""
        segments = tuple(changed if s.id == changed.id else s for s in self.segments)
        return replace(self, segments=segments)

    def with_copies(self, copies: Mapping[SegmentId, SegmentCopy | None]) -> "LogRecord":
        """Set the copies of these segments; what they replace becomes trash.

        A segment whose entries are only in its copy from now on becomes trash, too.
        """
        segments = tuple(
            replace(s, copy=copies[s.id]) if s.id in copies else s for s in self.segments
        )
        return self._discarding(replace(self, segments=segments))

    def with_rewritten(self, rewritten: Iterable[Segment]) -> "LogRecord":
        """Replace the segments with the ids of rewritten ones; what they replace becomes trash.

        Neighbours without remaining entries become one element, so that a list cannot grow
        without limit; their ledger ids are forgotten, except the first.
        """
        changed = {segment.id: segment for segment in rewritten}
        segments: list[Segment] = []
        for segment in (changed.get(s.id, s) for s in self.segments):
            # Neither has an entry to read: only the sums of the two are needed.
            if segments and segment.kept == 0 == segments[-1].kept:
                segments[-1] = _joined(segments[-1], segment)
            else:
                segments.append(segment)
        return self._discarding(replace(self, segments=tuple(segments)))

    def with_compacted(self, compacted: Compacted | None) -> "LogRecord":
        """Replace the compacted data; the old data becomes trash."""
        old = set() if self.compacted is None else self.compacted.segments
        new = set() if compacted is None else compacted.segments
        # The new parts leave the trash by the change that lists them: a crash before it deletes
        # them, a crash after it deletes the old ones.
        trash = tuple(t for t in self.trash if t not in new) + tuple(sorted(old - new))
        return replace(self, compacted=compacted, trash=trash)

    def without(self, doomed: frozenset[SegmentId]) -> "LogRecord":
        """Remove some of the first segments, which become trash."""
        deleted = [s for s in self.segments if s.id in doomed]
        return self._discarding(
            replace(
                self,
                # Counts of the whole history stay, so that no offset and no backlog changes.
                first_offset=self.first_offset + sum(s.entries or 0 for s in deleted),
                first_messages=self.first_messages + sum(s.messages for s in deleted),
                segments=tuple(s for s in self.segments if s.id not in doomed),
            )
        )

    def emptied(self) -> "LogRecord":
        """Remove all segments, and list them as trash."""
        return replace(
            self,
            segments=(),
            cursor_segment=None,
            delay_segments=(),
            compacted=None,
            trash=tuple(sorted(self.listed)),
            copy_trash=self.copy_trash + tuple(self._copies.values()),
        )

    # Times of trash -------------------------------------------------------------

    def with_times(self, now_ms: int) -> "LogRecord":
        """Note `now_ms` for trash without a time, and forget the times of what is not trash."""
        times = self.unlisted_ms
        # promise[times.get(name, now_ms) -> now_ms]: each change of a record leaves the times of
        #   older trash as they are
        return replace(self, unlisted_ms={name: times.get(name, now_ms) for name in self._doomed})

    def is_due(self, trash: SegmentId | SegmentCopy, until_ms: int) -> bool:
        """Return whether an element of the trash became trash at `until_ms` or before."""
        name = trash.name if isinstance(trash, SegmentCopy) else str(trash)
        return self.unlisted_ms.get(name, until_ms + 1) <= until_ms

    @property
    def has_times(self) -> bool:
        """Whether all trash has a time, and nothing else has one."""
        return self.unlisted_ms.keys() == set(self._doomed)

    @property
    def _doomed(self) -> list[str]:
        """The names of all trash, as `unlisted_ms` has them."""
        return [*map(str, self.trash), *(copy.name for copy in self.copy_trash)]

    @property
    def _copies(self) -> dict[str, SegmentCopy]:
        """The copies of the segments, by the name of the object."""
        return {s.copy.name: s.copy for s in self.segments if s.copy is not None}

    def _discarding(self, after: "LogRecord") -> "LogRecord":
        """Return `after` with what only the present record uses added to its trash."""
        kept = tuple(t for t in after.trash if t not in after.stored)
        # promise[without + tuple(sorted(self.stored - after.stored))]: what was rewritten is
        #   deleted
        trash = kept + tuple(sorted(self.stored - after.stored))
        copies = after._copies
        unused = tuple(copy for name, copy in self._copies.items() if name not in copies)
        # promise[without + unused]: the copies of segments that are deleted are deleted
        return replace(after, trash=trash, copy_trash=after.copy_trash + unused)

    # The stored form ------------------------------------------------------------

    def encode(self) -> bytes:
        """Encode the record as the stored JSON."""
        fields = vars(self) | {"segments": [_encoded(segment) for segment in self.segments]}
        if not self.delay_segments:
            del fields["delay_segments"]  # as earlier releases write it
        if self.compacted is None:
            del fields["compacted"]
        else:
            fields["compacted"] = asdict(self.compacted)
        if not self.terminated:
            del fields["terminated"]
        if self.terminated_at is None:
            del fields["terminated_at"]
        if self.copy_trash:
            fields["copy_trash"] = [asdict(copy) for copy in self.copy_trash]
        else:
            del fields["copy_trash"]
        if not self.unlisted_ms:
            del fields["unlisted_ms"]
        # At the beginning, for `is_unused`.
        first = {name: fields.pop(name) for name in ("created_ms", "has_broker_metadata")}
        head = {"version": self._version()} | {name: one for name, one in first.items() if one}
        return json.dumps(head | fields).encode()

    def _version(self) -> int:
        """Return the lowest version whose releases understand the record."""
        segments = self.segments
        has_copies = bool(self.copy_trash) or any(one.copy is not None for one in segments)
        needed = (
            (KEEPING_VERSION, self.unlisted_ms),
            (COPIED_VERSION, has_copies),
            (BROKER_METADATA_VERSION, self.has_broker_metadata),
            (LOST_VERSION, any(one.lost for one in segments)),
            (CREATED_VERSION, self.created_ms),
            (TERMINATED_VERSION, self.terminated),
            (COMPACTED_VERSION, self.compacted is not None),
            (REWRITTEN_VERSION, not all(one.is_whole for one in segments)),
        )
        return next((version for version, is_needed in needed if is_needed), RECORD_VERSION)

    @classmethod
    def decode(cls, key: str, value: bytes) -> "LogRecord":
        """Decode the record stored under `key`; `Corrupt` if the value cannot be read."""
        try:
            fields = json.loads(value)
            version = fields.pop("version")
            # A later release may have stored what this one would drop at its first change.
            if not RECORD_VERSION <= version <= KEEPING_VERSION:
                why = f"record version {version}; this release reads up to {KEEPING_VERSION}"
                raise Corrupt(key, 0, why)
            segments = tuple(map(_decoded, fields.pop("segments")))
            delays = _ids(fields.pop("delay_segments", ()))
            trash = _ids(fields.pop("trash"))
            properties = dict(fields.pop("properties", {}))
            compacted = Compacted.decode(fields.pop("compacted", None))
            terminated = fields.pop("terminated", False) is True
            last = _position(fields.pop("terminated_at", None))
            broker_metadata = fields.pop("has_broker_metadata", False) is True
            copies = tuple(map(_decoded_copy, fields.pop("copy_trash", ())))
            times = _numbers(dict(fields.pop("unlisted_ms", {})))
            return cls(
                segments=segments, delay_segments=delays, trash=trash, properties=properties,
                compacted=compacted, terminated=terminated, terminated_at=last,
                has_broker_metadata=broker_metadata, copy_trash=copies, unlisted_ms=times,
                **_numbers(fields),
            )  # fmt: skip
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Corrupt(key, 0, f"the metadata record cannot be read: {error}") from error


_UNUSED = LogRecord().encode().partition(b", ")[2]
"""The end of the record of a log that was created and not used since."""


def is_unused(value: bytes) -> bool:
    """Return whether a stored record is that of a log that was created and not used since.

    There may be very many of these, and this is faster than decoding them.
    """
    return value.endswith(_UNUSED)


def _numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields unchanged; TypeError if one is not a number."""
    for name, value in fields.items():
        # A text or a list here would fail later, far from the record that has it.
        if not isinstance(value, int) and not (value is None and name in OPTIONAL):
            raise TypeError(f"{name}: expected a number but got {value!r}")
    return fields


def _ids(values: Iterable[Any]) -> tuple[SegmentId, ...]:
    return tuple(_numbers({"id": value})["id"] for value in values)


def _position(value: Iterable[Any] | None) -> tuple[SegmentId, int] | None:
    if value is None:
        return None
    ledger, entry = _ids(value)
    return ledger, entry


def _joined(one: Segment, other: Segment) -> Segment:
    """Join two neighbours without remaining entries into one element."""
    return replace(
        one,
        entries=(one.entries or 0) + (other.entries or 0),
        messages=one.messages + other.messages,
        sealed_ms=max(one.sealed_ms, other.sealed_ms),
    )


def _united(
    some: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return all ranges in order, with touching ranges joined."""
    united: list[tuple[int, int]] = []
    for first, stop in sorted((*some, *others)):
        if united and first <= united[-1][1]:
            united[-1] = (united[-1][0], max(stop, united[-1][1]))
        else:
            united.append((first, stop))
    return tuple(united)


def _decoded(fields: dict[str, Any]) -> Segment:
    """Decode a segment, whose fields have `lost` and `copy` only if there is any."""
    lost = tuple((first, stop) for first, stop in map(_ids, fields.pop("lost", ())))
    copy = fields.pop("copy", None)
    return Segment(
        lost=lost, copy=None if copy is None else _decoded_copy(copy), **_numbers(fields)
    )


def _decoded_copy(fields: dict[str, Any]) -> SegmentCopy:
    place, name, is_only = fields.pop("place"), fields.pop("name"), fields.pop("is_only") is True
    if not isinstance(place, str) or not isinstance(name, str):
        raise TypeError(f"copy: expected texts but got {place!r} and {name!r}")
    return SegmentCopy(place, name, is_only=is_only, **_numbers(fields))


def _encoded(segment: Segment) -> dict[str, Any]:
    """Encode a segment; fields that it does not need are left out, as in earlier releases."""
    fields = dict(vars(segment))
    # A record that needs no later version can be read by earlier releases, after a downgrade.
    if segment.is_whole:
        del fields["kept"], fields["kept_in"]
    if not segment.lost:
        del fields["lost"]
    if segment.copy is None:
        del fields["copy"]
    else:
        fields["copy"] = asdict(segment.copy)
    return fields
