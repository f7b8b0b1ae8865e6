"""Entries that were read and could not be delivered yet, so that they are not read again."""

KEPT_BYTES = 4 << 20
"""What does not fit is read once more when its turn comes."""

Entry = tuple[bytes, int]
"""The bytes, and how many messages they hold."""


class KeptEntries:
    """By offset, in bounded memory."""

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        self._entries: dict[int, Entry] = {}
        self._bytes = 0
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, offset: int, payload: bytes, count: int) -> None:
        """Keep an entry, if there is room."""
        if self._bytes + len(payload) <= self._max_bytes and offset not in self._entries:
            self._entries[offset] = (payload, count)
            self._bytes += len(payload)

    def get(self, offset: int) -> Entry | None:
        """The entry, if it is kept."""
        return self._entries.get(offset)

    def discard(self, offset: int) -> None:
        """It is not needed any more."""
        entry = self._entries.pop(offset, None)
        if entry is not None:
            self._bytes -= len(entry[0])

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._bytes = 0
