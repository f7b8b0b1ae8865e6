"""For how long nobody has used a topic's durable subscriptions."""

import json
from typing import Final

from magnetar_storage.cursor_log import DurableCursor

WRITTEN_SECONDS: Final = 3600
"""So much, or an eighth of what counts, may be forgotten in a crash."""
WRITTEN_TOGETHER: Final = 10_000

Use = tuple[int, int]
"""How many consumers have come so far, and where the cursor is."""


class Idleness:
    """A side of the cursor log; what it forgets makes a subscription live longer, never shorter."""

    __slots__ = ("_changed", "_idle", "_seen", "_written")

    def __init__(self) -> None:
        self._idle: dict[int, int] = {}  # seconds by the cursor's number
        self._written: dict[int, int] = {}
        self._changed: set[int] = set()
        self._seen: dict[int, Use] = {}

    def look(self, cursor: DurableCursor, joined: int, in_use: bool, seconds: int) -> None:
        """A subscription, so many seconds after the last look; `joined` consumers came so far."""
        number, use = cursor.number, (joined, cursor.mark_delete)
        known, self._seen[number] = self._seen.get(number), use
        if in_use or (known is not None and known != use):
            self._set(number, 0)
        elif known is not None:
            self._set(number, self._idle.get(number, 0) + seconds)

    def used(self, cursor: DurableCursor) -> bool:
        """A consumer has come; whether the disk has to be told."""
        self._set(cursor.number, 0)
        return cursor.number in self._changed

    def keep(self, numbers: set[int]) -> None:
        """Forget all other cursors."""
        for number in (self._idle.keys() | self._seen.keys()) - numbers:
            self._set(number, 0)
            self._seen.pop(number, None)

    def seconds(self, cursor: DurableCursor) -> int:
        """For how long a subscription has been idle."""
        return self._idle.get(cursor.number, 0)

    def worth_writing(self, limit_seconds: int) -> bool:
        """Whether the disk knows too little, where so many seconds are what counts."""
        step = min(WRITTEN_SECONDS, limit_seconds // 8)
        return any(self._is_behind(number, step) for number in self._changed)

    def _is_behind(self, number: int, step: int) -> bool:
        now, written = self._idle.get(number, 0), self._written.get(number, 0)
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

    # As a side --------------------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        """What changed since the last call."""
        changed = {number: self._idle.get(number, 0) for number in sorted(self._changed)}
        self._written = dict(self._idle)
        self._changed.clear()
        return _pieces(changed)

    def snapshot(self) -> list[bytes]:
        """Everything."""
        self._written = dict(self._idle)
        self._changed.clear()
        return _pieces(self._idle)

    def apply(self, data: bytes) -> None:
        """Replay a piece; ValueError if it is none."""
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("no object")
        for number, seconds in found.items():
            if type(seconds) is not int or seconds < 0:
                raise ValueError(f"{seconds!r} seconds")
            self._idle[int(number)] = seconds
        self._idle = {number: seconds for number, seconds in self._idle.items() if seconds}
        self._written = dict(self._idle)


def _pieces(idle: dict[int, int]) -> list[bytes]:
    items = list(idle.items())
    return [
        json.dumps(dict(items[at : at + WRITTEN_TOGETHER])).encode()
        for at in range(0, len(items), WRITTEN_TOGETHER)
    ]
