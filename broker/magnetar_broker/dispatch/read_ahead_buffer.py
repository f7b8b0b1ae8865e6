"""Entries that Key_Shared has read and could not send yet, so that it need not read them twice."""

from collections.abc import Iterator

BUFFER_BYTES = 4 << 20
"""Entries that do not fit are read again when they can be sent."""

Entry = tuple[bytes, int]
"""The payload and its number of messages."""


class ReadAheadBuffer:
    """Entries by offset, in bounded memory."""

    def __init__(self, max_bytes: int = BUFFER_BYTES) -> None:
        self._entries: dict[int, Entry] = {}
        self._bytes = 0
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def add(self, offset: int, payload: bytes, count: int) -> None:
        """Keep an entry if it fits."""
        if self._bytes + len(payload) <= self._max_bytes and offset not in self._entries:
            self._entries[offset] = (payload, count)
            self._bytes += len(payload)

    def get(self, offset: int) -> Entry | None:
        """The entry; None if it is not here."""
        return self._entries.get(offset)

    def discard(self, offset: int) -> None:
        """Remove an entry, if it is here."""
        entry = self._entries.pop(offset, None)
        if entry is not None:
            self._bytes -= len(entry[0])

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()
        self._bytes = 0
