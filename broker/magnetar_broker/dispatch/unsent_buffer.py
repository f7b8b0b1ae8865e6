"""A buffer of entries that Key_Shared has read and could not send yet, to spare a second read."""

from collections.abc import Iterator

from magnetar_storage.log.read_budget import Holding, ReadBudget

BY_OFFSET_OVERHEAD = 200
"""The bytes that an entry in a dictionary needs besides its payload: the slot, a pair, headers."""
BUFFER_BYTES = 4 << 20
"""The size of the buffer; entries that do not fit are read again when they can be sent."""

Entry = tuple[bytes, int]
"""The payload and its number of messages."""


class UnsentBuffer:
    """Entries by offset, in bounded memory, which counts in the budget of all readers."""

    def __init__(self, budget: ReadBudget, max_bytes: int = BUFFER_BYTES) -> None:
        self._entries: dict[int, Entry] = {}
        self._max_bytes = max_bytes
        self._holding = Holding(budget, self._entries.clear, BY_OFFSET_OVERHEAD)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._entries)

    def add(self, offset: int, payload: bytes, count: int) -> None:
        """Keep an entry if it fits."""
        size = len(payload) + BY_OFFSET_OVERHEAD
        # When it is full, what is in it stays: that is older, and is sent first.
        if self._holding.held + size > self._max_bytes or offset in self._entries:
            return
        # Other readers may have used up the budget: then the entry is read again later.
        if self._holding.grow(size):
            self._entries[offset] = (payload, count)

    def get(self, offset: int) -> Entry | None:
        """Return the entry; None if it is not here."""
        return self._entries.get(offset)

    def discard(self, offset: int) -> None:
        """Remove an entry, if it is here."""
        entry = self._entries.pop(offset, None)
        if entry is not None:
            self._holding.shrink(len(entry[0]) + BY_OFFSET_OVERHEAD)

    def clear(self) -> None:
        """Remove everything."""
        self._holding.release()
