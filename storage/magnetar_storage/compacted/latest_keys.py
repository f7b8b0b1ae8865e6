"""Finds the last message of each key in bounded memory, however many keys there are.

Keys are compared by a hash of 128 bits.  The latest messages are gathered by key in memory; if
there are too many keys they are spilled to a segment, divided by hash, and in the end each
division is joined on its own.  The result is a bit per message.
"""

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from struct import Struct

from magnetar_storage.compacted.compacted_part import READ_ENTRIES
from magnetar_storage.compacted.compacted_writer import Appender, Scratch
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import SegmentKind, SegmentReader
from magnetar_storage.log.log import Log

HASH_BYTES = 16
KEYS_IN_MEMORY = 1 << 16
MAX_DIVISIONS = 1 << 12
SLICE = 2000
"""The keys that are handled before other coroutines get a turn."""
_SPILLED = Struct(f"<{HASH_BYTES}sQ")

Last = tuple[bytes, int]
"""A key's hash, and twice a message's number, plus one if the message deletes the key."""


def last(key_hash: bytes, number: int, deletes: bool) -> Last:
    """Return an item for `LatestKeys.add`."""
    return key_hash, number << 1 | deletes


class Bits:
    """A set of numbers with one bit for each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, number: int) -> None:
        at = number >> 3
        lacking = at + 1 - len(self._bytes)
        if lacking > 0:
            self._bytes.extend(bytes(lacking))
        self._bytes[at] |= 1 << (number & 7)

    def get(self, first: int, n: int) -> int:
        """Return an integer whose bit i is that of `first + i`."""
        start, stop = first >> 3, (first + n + 7) >> 3
        found = int.from_bytes(self._bytes[start:stop], "little") >> (first & 7)
        return found & ((1 << n) - 1)


class LatestKeys:
    """Finds the last message of each key: `add` all messages in order, then `resolve`."""

    def __init__(
        self, log: Log, scratch: Scratch, messages: int, turn: Callable[[], Awaitable[None]]
    ) -> None:
        """`messages` is an estimate of the log's messages; `turn` lets other coroutines run."""
        self.survivors = Bits()
        """The messages to keep; complete when `resolve` returns."""
        self._log = log
        self._scratch = scratch
        self._turn = turn
        # As many divisions as keep the keys of each in memory, if no two messages share a key.
        self._divisions = min(messages // KEYS_IN_MEMORY, MAX_DIVISIONS) + 1
        self._latest: dict[bytes, int] = {}
        self._spill: Appender | None = None
        self._blocks: list[list[int]] = []  # entries of the spill, by division

    async def add(self, found: Iterable[Last]) -> None:
        """Add messages that have a key; all of them are later than the messages added before."""
        # The last one of a key wins, since messages come in order; across spills as well, since a
        # division is read in the order in which it was written.
        self._latest.update(found)
        if len(self._latest) >= KEYS_IN_MEMORY:
            await self._spill_all()

    async def resolve(self) -> None:
        """Compute `survivors`, the last message of each key."""
        if self._spill is None:
            await self._settle()
            return
        await self._spill_all()  # so that every division is read in the same way
        await self._spill.seal()
        reader = await self._log.engine.store.reader(self._spill.segment)
        try:
            for blocks in self._blocks:
                for entry in blocks:
                    items = iter(await _spilled(reader, self._spill.segment, entry))
                    while part := list(islice(items, SLICE)):
                        self._latest.update(part)
                        await self._turn()
                await self._settle()
        finally:
            reader.close()

    async def _settle(self) -> None:
        while self._latest:
            for _, value in self._taken():
                # Else the last message of the key deletes it: no message of the key is kept.
                if not value & 1:
                    self.survivors.add(value >> 1)
            await self._turn()
        self._latest = {}

    def _taken(self) -> list[Last]:
        """Take some keys out of memory: freeing all of them at once would take long."""
        take = self._latest.popitem
        return [take() for _ in range(min(SLICE, len(self._latest)))]

    async def _spill_all(self) -> None:
        """Write the keys in memory, a block per division: the remainder of the key's hash."""
        if not self._latest:
            return
        if self._spill is None:
            self._spill = Appender(self._log, await self._scratch.create(SegmentKind.SCRATCH))
            self._blocks = [[] for _ in range(self._divisions)]
        divisions, pack = self._divisions, _SPILLED.pack
        parts = [bytearray() for _ in range(divisions)]
        while self._latest:
            for key_hash, value in self._taken():
                division = int.from_bytes(key_hash[:8], "little") % divisions
                parts[division] += pack(key_hash, value)
            await self._turn()
        self._latest = {}
        written = [division for division, part in enumerate(parts) if part]
        for entry, division in enumerate(written, self._spill.entries):
            self._blocks[division].append(entry)
        await self._spill.append_each([bytes(parts[division]) for division in written])


async def _spilled(reader: SegmentReader, segment: int, entry: int) -> Iterable[Last]:
    run = await reader.read(entry, 1, READ_ENTRIES)
    if not run.payloads:
        why = f"the spilled keys of a compaction end before entry {entry}"
        raise Corrupt("compaction", 0, why, segment, entry, entry)
    return _SPILLED.iter_unpack(run.payloads[0])
