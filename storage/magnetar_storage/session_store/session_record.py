"""The record of a session in the metadata store: its state, and where its segments are.

A session is `OPEN` while its process lives.  It is `FENCED` when it was decided that the process
has ended, at first without an end.  It is `SETTLED` when the write-ahead log is not needed any
more, and `GONE` when the last of its segments was deleted.  Records stay, since numbers are never
used again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import SegmentId

SESSIONS_PREFIX: Final = "/sessions/"
"""The beginning of the keys of all sessions."""


class SessionState(StrEnum):
    """The states of a session, in their order; none is left for an earlier one."""

    OPEN = "open"
    FENCED = "fenced"
    SETTLED = "settled"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The durable state of a session that may change; each change is a compare-and-set."""

    state: SessionState = SessionState.OPEN
    owner: str = ""
    """The process, for operators and for whoever decides that it has ended."""
    trim: int = 0
    """The first slot of the write-ahead log that is still needed."""
    discarded: int = 0
    """All slots below this are deleted; up to `trim` they may be."""
    end: int | None = None
    """The first slot that is not part of the session; None before the fence is known to be there,
    and for a session that stopped in order."""
    manifest: int = 0
    """The number of the object that lists the segments; 0 if there is none."""
    deleted: frozenset[SegmentId] = frozenset()
    """Segments that the manifest lists although they were deleted."""
    aside: Mapping[SegmentId, int] = field(default_factory=dict)
    """Segments that no log lists, each with the time in ms at which that was found."""

    def encode(self) -> bytes:
        """Encode the record; fields that have their default are left out."""
        fields: dict[str, object] = {"state": self.state}
        if self.owner:
            fields["owner"] = self.owner
        for name, number in (
            ("trim", self.trim), ("discarded", self.discarded), ("manifest", self.manifest),
        ):  # fmt: skip
            if number:
                fields[name] = number
        if self.end is not None:
            fields["end"] = self.end
        if self.deleted:
            fields["deleted"] = sorted(self.deleted)
        if self.aside:
            fields["aside"] = {str(segment): at_ms for segment, at_ms in self.aside.items()}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, key: str, value: bytes) -> "SessionRecord":
        """Decode a record; `Corrupt` if this release did not write it."""
        try:
            fields = json.loads(value)
            return cls(
                SessionState(fields["state"]),
                str(fields.get("owner", "")),
                int(fields.get("trim", 0)),
                int(fields.get("discarded", 0)),
                None if "end" not in fields else int(fields["end"]),
                int(fields.get("manifest", 0)),
                frozenset(map(int, fields.get("deleted", ()))),
                {int(key): int(at_ms) for key, at_ms in fields.get("aside", {}).items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Corrupt(key, 0, f"expected the record of a session, got {error!r}") from error


def key_of(session: int) -> str:
    """Return the key of a session's record."""
    return f"{SESSIONS_PREFIX}{session:06x}"


def number_of(key: str) -> int | None:
    """Return the session of a key; None for other keys."""
    text = key.removeprefix(SESSIONS_PREFIX)
    try:
        number = int(text, 16)
    except ValueError:
        return None
    return number if key == key_of(number) else None
