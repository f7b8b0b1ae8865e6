"""The messages of a topic that durable subscriptions, deleted ones included, have acknowledged.

Messages that no subscription has acknowledged are kept for longer (`policies/retention.py`).  A
subscription that exists holds everything from the offset at which it began, acknowledged or not. So
only two things are stored: where subscriptions began, if not at the first message, and what deleted
subscriptions had acknowledged.
"""

import json
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from magnetar_storage.cursors.attached_state import READ_HISTORY
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.log.log import Log
from magnetar_storage.log.offset_set import OffsetSet, next_in_neither
from magnetar_storage.log.ranges import RangeSet

END: Final = 1 << 63
"""An offset after every message."""
MOST_RANGES: Final = 1000
"""The most ranges of deleted subscriptions that are remembered."""
NAMES_TOGETHER: Final = 100
"""The most subscriptions in one piece of JSON."""


class ReadHistory:
    """The starts of subscriptions, and the acknowledgements of deleted ones: an `AttachedState`.

    Forgetting any of it makes messages stay longer, never shorter.
    """

    __slots__ = ("_ended", "_ended_ranges", "_new_starts", "_starts")

    def __init__(self) -> None:
        self._starts: dict[str, int] = {}
        self._ended = RangeSet()
        self._new_starts: dict[str, int | None] = {}
        self._ended_ranges: list[tuple[int, int]] = []  # not yet written

    @classmethod
    def stored(cls, cursors: CursorLog) -> "ReadHistory | None":
        """Return the state that was stored with a topic's cursors; None if none was."""
        return cls.attached(cursors) if cursors.is_attached(READ_HISTORY) else None

    @classmethod
    def attached(cls, cursors: CursorLog) -> "ReadHistory":
        """Return the state of a topic, which is stored with its cursors from now on."""
        history = cls()
        cursors.adopt(READ_HISTORY, history)
        return history

    def begin(self, subscription: str, start: int) -> None:
        """Note a new subscription, which holds no message before the offset `start`."""
        self._starts[subscription] = self._new_starts[subscription] = start

    def seek(self, subscription: str, offset: int) -> None:
        """Note that a subscription was moved, perhaps to an offset before its start."""
        # Forward, it has skipped messages, which count as acknowledged; backward, it holds more.
        if offset < self._starts.get(subscription, 0):
            self.begin(subscription, offset)

    def end(self, subscription: str, mark_delete: int) -> None:
        """Note the deletion of a subscription that had acknowledged all up to `mark_delete`."""
        start = self._starts.pop(subscription, 0)
        self._new_starts[subscription] = None
        # Without an acknowledgement there is nothing to remember.
        if mark_delete >= start:
            self._ended_ranges.append((start, mark_delete + 1))
            self._add(start, mark_delete + 1)

    def forget_below(self, offset: int) -> None:
        """Forget offsets that were deleted from the log; later snapshots leave them out."""
        self._ended.remove_below(offset)

    def held_or_read(self, present: Collection[str]) -> RangeSet:
        """Return the offsets that a present subscription holds, or that any has acknowledged.

        `present` are the names of the topic's subscriptions.
        """
        found = self._ended.copy()
        # The earliest start is enough: a subscription holds everything after its start.
        if present:
            found.add(min(self._starts.get(name, 0) for name in present), END)
        return found

    def _add(self, start: int, stop: int) -> None:
        self._ended.add(start, stop)
        # The oldest are forgotten first: their messages are closest to being deleted anyway.
        if sum(1 for _ in self._ended) > MOST_RANGES:
            self._ended.remove(*self._ended.first)

    # Attached state ---------------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        """Return the changes since the last call."""
        starts, self._new_starts = self._new_starts, {}
        ended, self._ended_ranges = self._ended_ranges, []
        return _pieces(starts, ended)

    def snapshot(self) -> list[bytes]:
        """Return the whole state."""
        self._new_starts, self._ended_ranges = {}, []
        return _pieces(self._starts, list(self._ended))

    def apply(self, data: bytes) -> None:
        """Replay a piece of the state; ValueError if it is malformed."""
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("what was acknowledged must be a JSON object")
        for name, start in found.get("starts", {}).items():
            if start is None:
                self._starts.pop(name, None)
            else:
                self._starts[name] = _offset(start)
        for start, stop in found.get("ended", ()):
            self._add(_offset(start), _offset(stop))


class Remembering(Protocol):
    """A topic with a read history, which most topics do not need."""

    read_history: ReadHistory | None
    cursors: CursorLog
    log: Log


def changing(topic: Remembering) -> ReadHistory:
    """Return the read history of a topic; the caller changes it before its next await."""
    # Made with the first change: most topics have no subscription that ends or begins late.
    if topic.read_history is None:
        topic.read_history = ReadHistory.attached(topic.cursors)
    topic.cursors.state_changed(READ_HISTORY)
    return topic.read_history


class ReadOffsets(NamedTuple):
    """The offsets of a topic that count as read: nobody will ask for them."""

    held_or_read: RangeSet
    """The offsets that a durable subscription holds, or that any has acknowledged."""
    hidden: OffsetSet
    """The offsets that are never delivered: those of aborted transactions and markers."""
    holes: OffsetSet
    """The offsets of entries that were deleted or set aside."""

    def next_unread(self, offset: int) -> int:
        """Return the first offset from `offset` on that does not count as read."""
        while True:
            found = next_in_neither(self.hidden, self.holes, offset)
            offset = self.held_or_read.next_missing(found)
            # Each set may skip into what another one covers, so all agree only when nothing has
            # moved.
            if offset == found:
                return found

    def unread(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of start..stop-1 that do not count as read, in order."""
        start = self.next_unread(start)
        while start < stop:
            ends = [one.next_present(start) for one in self]
            end = min((end for end in ends if end is not None), default=stop)
            end = min(end, stop)
            yield start, end
            start = self.next_unread(end)


def read_offsets(topic: Remembering) -> ReadOffsets:
    """Return the offsets of a topic that count as read at present."""
    history = topic.read_history or ReadHistory()
    held_or_read = history.held_or_read(topic.cursors.cursors)
    return ReadOffsets(held_or_read, topic.log.hidden, topic.log.holes)


def _offset(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"offset {value!r}: expected a whole number, 0 or more")
    return value


def _pieces(starts: dict[str, Any], ended: list[tuple[int, int]]) -> list[bytes]:
    # In pieces: a topic may have thousands of subscriptions, and an entry of the cursor segment is
    # to stay small, since other topics wait for the same journal.
    pieces: list[dict[str, Any]] = [{"ended": ended}] if ended else []
    names = iter(starts.items())
    while some := dict(islice(names, NAMES_TOGETHER)):
        pieces.append({"starts": some})
    return [json.dumps(piece).encode() for piece in pieces]
