"""Deduplication, the pure part: the highest sequence id of each producer's name.

Two ids are kept of each name: the highest that was handed to the log (`pushed`), and the highest
that is durable (`durable`).  The second survives a restart, with the offset up to which entries are
counted in it; entries from that offset on are read again when the topic is loaded.

    piece    i64 covered offset (-1: deduplication is off), u32 n, then n times
             i64 highest id (`NO_ID`: the name was removed), i64 last used, ms,
             u32 length, name in UTF-8
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from struct import Struct

from magnetar_broker.producers.deduplication_state import NO_ID
from magnetar_proto.wire import to_signed64

_HEAD = Struct("<qI")
_NAME = Struct("<qqI")
MAX = (1 << 63) - 1
OFF = -1
PIECE_BYTES = 1 << 19


class KnownProducer:
    """The highest ids of one producer's name."""

    __slots__ = ("durable", "pushed", "used_ms")

    def __init__(self) -> None:
        self.pushed = self.durable = NO_ID
        self.used_ms = 0


class Sequences:
    """The names of one topic; an attached state of its cursor log (`AttachedState`)."""

    def __init__(self, max_names: int = 10_000) -> None:
        self.covered = OFF
        """The offset before which entries are counted; `OFF` while there is no deduplication."""
        self._max_names = max_names
        self._known: dict[str, KnownProducer] = {}
        """The known names in the order of their last use, the latest last."""
        self._changed: dict[str, None] = {}
        self._written = OFF
        """The value of `covered` when the state was last handed out to be written."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def unwritten(self) -> int:
        """The number of counted entries that the state last handed out does not cover."""
        return self.covered - self._written

    def highest(self, name: str) -> int:
        """Return the highest id that was handed to the log under a name; -1 if none."""
        known = self._known.get(name)
        return -1 if known is None or known.pushed == NO_ID else known.pushed

    # Publishing ---------------------------------------------------------------------------

    def sort(
        self, name: str, lows: Sequence[int], highs: Sequence[int], exempt: Collection[int] = ()
    ) -> list[int | None]:
        """Return the highest id of each entry, or None for a copy, which must not be stored.

        An entry is new if its lowest id is above every id that was pushed; it is pushed now.
        `highs` are 0 for entries of one message.  Entries at `exempt` are always new and push
        nothing.
        """
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = KnownProducer()
        verdicts: list[int | None] = []
        for at, (low, high) in enumerate(zip(lows, highs, strict=True)):
            top = max(to_signed64(low), to_signed64(high))
            if at in exempt:
                verdicts.append(NO_ID)
            elif to_signed64(low) > known.pushed:
                known.pushed = top
                verdicts.append(top)
            else:
                verdicts.append(None)
        return verdicts

    def push(self, name: str, lows: Sequence[int]) -> bool:
        """Do the same as `sort`, faster, for single messages with consecutive ids that are all new.

        Return False, and do nothing, in any other case.
        """
        first, n = lows[0], len(lows)
        known = self._known.get(name)
        # An unknown name is left to `sort`, which creates it.
        if known is None or not known.pushed < first <= MAX - n:
            return False
        # A comparison of lists is done in C: it costs less than a loop over a few ids.
        if n > 1 and lows != list(range(first, first + n)):
            return False
        known.pushed = first + n - 1
        return True

    def count(self, name: str, highest: int, end: int, now_ms: int) -> None:
        """Count durable entries: ids of a name up to `highest`, entries before offset `end`."""
        known = self._known.pop(name, None) or KnownProducer()
        self._known[name] = known  # the latest used one is the last
        known.used_ms = now_ms
        if highest > known.durable:
            known.durable = highest
            # After a load, entries are counted that nobody pushed in this process.
            known.pushed = max(known.pushed, highest)
            self._changed[name] = None
        self.covered = end

    # Removing -----------------------------------------------------------------------------

    def purge(self, since_ms: int, is_present: Callable[[str], bool]) -> None:
        """Remove names that were not used since a time, and the least recently used of too many.

        Names of connected producers (`is_present`), and those with pending entries, stay.
        """
        too_many = len(self._known) - self._max_names
        for name, known in list(self._known.items()):
            if too_many <= 0 and known.used_ms >= since_ms:
                break
            # A name with pending entries is in use, though its producer may have left.
            if not is_present(name) and known.pushed == known.durable:
                del self._known[name]
                self._changed[name] = None
                too_many -= 1

    def cover(self, end: int) -> None:
        """Set `covered`: entries before this offset are counted, or need not be."""
        self.covered = end

    def stop(self) -> None:
        """Remove everything: deduplication is off."""
        self._known.clear()
        self._changed.clear()
        self.covered = OFF

    # Being durable ------------------------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        """Return the pieces of the state that changed since the last call."""
        if self.covered == self._written:
            return []
        changed, self._changed = self._changed, {}
        return self._pieces(changed)

    def snapshot(self) -> list[bytes]:
        """Return the pieces of the whole state."""
        self._changed = {}
        if self.covered == OFF:
            self._written = OFF
            return []
        self._written = 0  # covered by every piece before the last one
        return self._pieces([name for name, known in self._known.items() if known.durable > NO_ID])

    def _pieces(self, names: Iterable[str]) -> list[bytes]:
        """Encode names in pieces; only the last has the new covered offset, for torn writes."""
        pieces: list[bytes] = []
        records: list[bytes] = []
        size = 0
        for name in names:
            record = self._record(name)
            # A piece is an entry of the cursor segment, and one append must not be too large.
            if size and size + len(record) > PIECE_BYTES:
                pieces.append(_HEAD.pack(self._written, len(records)) + b"".join(records))
                records, size = [], 0
            records.append(record)
            size += len(record)
        pieces.append(_HEAD.pack(self.covered, len(records)) + b"".join(records))
        self._written = self.covered
        return pieces

    def _record(self, name: str) -> bytes:
        known, encoded = self._known.get(name), name.encode()
        if known is None:
            return _NAME.pack(NO_ID, 0, len(encoded)) + encoded
        # promise[durable -> pushed]: a sequence id is kept as published only when it is durable
        return _NAME.pack(known.durable, known.used_ms, len(encoded)) + encoded

    def apply(self, data: bytes) -> None:
        """Replay a piece of the state."""
        covered, n = _HEAD.unpack_from(data)
        at = _HEAD.size
        for _ in range(n):
            highest, used_ms, size = _NAME.unpack_from(data, at)
            at += _NAME.size + size
            self._learn(data[at - size : at].decode(), highest, used_ms)
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes after the last name: expected none")
        if covered == OFF:
            self.stop()
        self.covered = self._written = covered

    def _learn(self, name: str, highest: int, used_ms: int) -> None:
        self._known.pop(name, None)
        if highest > NO_ID:
            known = self._known[name] = KnownProducer()
            known.pushed = known.durable = highest
            known.used_ms = used_ms
