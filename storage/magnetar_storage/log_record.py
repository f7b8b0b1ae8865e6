"""What the metadata store keeps of a log: the versioned list of its segments.

The value is JSON, so that a person can read it.  A segment whose `entries` is null is
not settled: whoever takes the log over recovers it first.  Offsets are derived: the
first segment starts at `first_offset`, each next one where the one before it ends.
"""

import json
from dataclasses import asdict, dataclass, field, replace

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import Sealed, SegmentId

RECORD_VERSION = 1


@dataclass(frozen=True)
class Segment:
    """One element of a log's segment list."""

    id: SegmentId
    created_ms: int
    entries: int | None = None
    messages: int = 0
    size: int = 0
    sealed_ms: int = 0

    def settled(self, end: Sealed, now_ms: int) -> "Segment":
        """The same segment with its end known."""
        return replace(
            self, entries=end.entries, messages=end.messages, size=end.size, sealed_ms=now_ms
        )


@dataclass(frozen=True)
class LogRecord:
    """Changed only by compare-and-set; a change that loses means another owner took over."""

    epoch: int = 0
    first_offset: int = 0
    first_messages: int = 0
    segments: tuple[Segment, ...] = ()
    cursor_segment: SegmentId | None = None
    delay_segments: tuple[SegmentId, ...] = ()
    trash: tuple[SegmentId, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def listed(self) -> set[SegmentId]:
        """Every segment that the log knows of, those to be deleted included."""
        cursors = set() if self.cursor_segment is None else {self.cursor_segment}
        cursors.update(self.delay_segments)
        return {segment.id for segment in self.segments} | cursors | set(self.trash)

    def encode(self) -> bytes:
        """The stored form."""
        return json.dumps({"version": RECORD_VERSION} | asdict(self)).encode()

    @classmethod
    def decode(cls, key: str, value: bytes) -> "LogRecord":
        """The record stored under `key`; `Corrupt` if this is none."""
        try:
            fields = json.loads(value)
            version = fields.pop("version")
            if version != RECORD_VERSION:
                why = f"record version {version}; this release reads {RECORD_VERSION}"
                raise Corrupt(key, 0, why)
            segments = tuple(Segment(**s) for s in fields.pop("segments"))
            delays = tuple(fields.pop("delay_segments", ()))
            trash = tuple(fields.pop("trash"))
            return cls(segments=segments, delay_segments=delays, trash=trash, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Corrupt(key, 0, f"the metadata record cannot be read: {error}") from error
