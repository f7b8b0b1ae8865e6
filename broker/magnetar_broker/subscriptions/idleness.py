"""Measures how long a topic's durable subscriptions have not been used."""

import json
from typing import Final

from magnetar_storage.cursors.attached_state import IDLENESS
from magnetar_storage.cursors.cursor_log import CursorLog, DurableCursor

WRITTEN_SECONDS: Final = 3600
"""The most idle time that a crash may lose, unless an eighth of the limit is less."""
WRITTEN_TOGETHER: Final = 10_000
"""The most cursors in one piece of JSON."""

Use = tuple[int, int]
"""The number of consumers that have joined so far, and the mark-delete position."""


class Idleness:
    """The idle seconds of subscriptions by cursor: an attached state of the cursor log.

    A crash that loses some of it makes a subscription live longer, never shorter.
    """

    __slots__ = ("_changed", "_idle", "_seen", "_written")

    def __init__(self) -> None:
        self._idle: dict[int, int] = {}  # seconds by the cursor's number
        self._written: dict[int, int] = {}
        self._changed: set[int] = set()
        self._seen: dict[int, Use] = {}

    @classmethod
    def stored(cls, cursors: CursorLog) -> "Idleness | None":
        """Return the state that an earlier load of the topic has stored; None if it stored none.

        Call it before consumers join: a use of a subscription must reset what is stored.
        """
        return cls.attached(cursors) if cursors.is_attached(IDLENESS) else None

    @classmethod
    def attached(cls, cursors: CursorLog) -> "Idleness":
        """Return the idle times of a topic's cursors, which are stored with them from now on."""
        idleness = cls()
        cursors.adopt(IDLENESS, idleness)
        return idleness

    def look(self, cursor: DurableCursor, joined: int, in_use: bool, seconds: int) -> None:
        """Look at a subscription, `seconds` after the last look; `joined` counts its consumers."""
        number, use = cursor.number, (joined, cursor.mark_delete)
        known, self._seen[number] = self._seen.get(number), use
        # In the first look after a load, any consumer that has joined is a use: it may have joined
        # before this state was attached.
        if in_use or (joined > 0 if known is None else known != use):
            self._set(number, 0)
        elif known is not None:
            self._set(number, self._idle.get(number, 0) + seconds)

    def used(self, cursor: DurableCursor) -> bool:
        """Note that a consumer has joined; return whether that has to be written."""
        self._set(cursor.number, 0)
        return cursor.number in self._changed

    def keep(self, numbers: set[int]) -> None:
        """Remove all cursors but those with these numbers."""
        # Numbers are assigned again: a new cursor must not begin with the idle time of a deleted
        # one.
        for number in (self._idle.keys() | self._seen.keys()) - numbers:
            self._set(number, 0)
            self._seen.pop(number, None)

    def seconds(self, cursor: DurableCursor) -> int:
        """Return how long a subscription has not been used, in seconds."""
        return self._idle.get(cursor.number, 0)

    def worth_writing(self, limit_seconds: int) -> bool:
        """Return whether enough changed to be written, for an expiration after `limit_seconds`."""
        # Idle times grow without anybody's doing: writing each step of them would keep the disk
        # busy for topics that nobody uses.
        step = min(WRITTEN_SECONDS, limit_seconds // 8)
        return any(self._is_behind(number, step) for number in self._changed)

    def _is_behind(self, number: int, step: int) -> bool:
        now, written = self._idle.get(number, 0), self._written.get(number, 0)
        # A use is written at once: lost, it would let the subscription expire too early.
        return now < written or now - written >= max(step, 1)

    def _set(self, number: int, seconds: int) -> None:
        if seconds:
            self._idle[number] = seconds
        else:
            self._idle.pop(number, None)
        if seconds != self._written.get(number, 0):
            self._changed.add(number)
        else:
            self._changed.discard(number)

    # Attached state ---------------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        """Return the changes since the last call."""
        changed = {number: self._idle.get(number, 0) for number in sorted(self._changed)}
        self._written = dict(self._idle)
        self._changed.clear()
        return _pieces(changed)

    def snapshot(self) -> list[bytes]:
        """Return the whole state."""
        self._written = dict(self._idle)
        self._changed.clear()
        return _pieces(self._idle)

    def apply(self, data: bytes) -> None:
        """Replay a piece of the state; ValueError if it is malformed."""
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("idle times must be a JSON object")
        for number, seconds in found.items():
            if type(seconds) is not int or seconds < 0:
                raise ValueError(
                    f"idle time {seconds!r}: expected a whole number of seconds, 0 or more"
                )
            self._idle[int(number)] = seconds
        self._idle = {number: seconds for number, seconds in self._idle.items() if seconds}
        self._written = dict(self._idle)


def _pieces(idle: dict[int, int]) -> list[bytes]:
    items = list(idle.items())
    return [
        json.dumps(dict(items[at : at + WRITTEN_TOGETHER])).encode()
        for at in range(0, len(items), WRITTEN_TOGETHER)
    ]
