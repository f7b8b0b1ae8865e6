"""Deduplication, the pure part: what each producer has published, by sequence ids.

Of every name two numbers are known: the highest id that was handed to the log (`pushed`), and the
highest that is durable (`stored`).  What survives a restart is the second, with the offset up to
which entries are counted in it; entries behind that offset are read again.

    piece    i64 covered offset (-1: deduplication is off), u32 n, then n times
             i64 highest id (the least number there is: forgotten), i64 last used, ms,
             u32 length, name in UTF-8
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from struct import Struct

from magnetar_broker.publishing.producer import NO_ID
from magnetar_proto.wire import to_signed64

_HEAD = Struct("<qI")
_NAME = Struct("<qqI")
MAX = (1 << 63) - 1
OFF = -1
PIECE_BYTES = 1 << 19


class Known:
    """What is known of one producer's name."""

    __slots__ = ("pushed", "stored", "used_ms")

    def __init__(self) -> None:
        self.pushed = self.stored = NO_ID
        self.used_ms = 0


class Sequences:
    """The names of one topic; a side of its cursor log (`SideState`)."""

    def __init__(self, max_names: int = 10_000) -> None:
        self.covered = OFF
        """Entries before this offset are counted; `OFF` while there is no deduplication."""
        self._max_names = max_names
        self._known: dict[str, Known] = {}
        """The longest unused first."""
        self._changed: dict[str, None] = {}
        self._written = OFF
        """What was `covered` when it was last handed out."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def unwritten(self) -> int:
        """How many entries are counted that what was handed out does not cover."""
        return self.covered - self._written

    def highest(self, name: str) -> int:
        """The highest id that was published under a name; -1 if none."""
        known = self._known.get(name)
        return -1 if known is None or known.pushed == NO_ID else known.pushed

    # Publishing ---------------------------------------------------------------------------

    def sort(
        self, name: str, lows: Sequence[int], highs: Sequence[int], exempt: Collection[int] = ()
    ) -> list[int | None]:
        """For each entry the id up to which it counts, None if it is a copy: not to be stored.

        An entry is new if its lowest id is above all that was pushed; it is pushed now.  `highs`
        are 0 where an entry is one message.  Entries at `exempt` are new and count for nothing.
        """
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = Known()
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
        """The usual case of `sort` at once: single messages that count up, all of them new.

        False if they are not: nothing was done.
        """
        first, n = lows[0], len(lows)
        known = self._known.get(name)
        if known is None or not known.pushed < first <= MAX - n:
            return False
        if n > 1 and lows != list(range(first, first + n)):
            return False
        known.pushed = first + n - 1
        return True

    def store(self, name: str, highest: int, end: int, now_ms: int) -> None:
        """Entries of a name up to id `highest` are durable, and all entries before offset `end`."""
        known = self._known.pop(name, None) or Known()
        self._known[name] = known  # the latest used one is the last
        known.used_ms = now_ms
        if highest > known.stored:
            known.stored = highest
            known.pushed = max(known.pushed, highest)
            self._changed[name] = None
        self.covered = end

    # Forgetting ---------------------------------------------------------------------------

    def purge(self, since_ms: int, is_present: Callable[[str], bool]) -> None:
        """Forget names that were not used since then, and the longest unused of too many.

        Not those of producers that are present.
        """
        too_many = len(self._known) - self._max_names
        for name, known in list(self._known.items()):
            if too_many <= 0 and known.used_ms >= since_ms:
                break
            if not is_present(name) and known.pushed == known.stored:
                del self._known[name]
                self._changed[name] = None
                too_many -= 1

    def cover(self, end: int) -> None:
        """Everything before this offset is counted, or is not to be."""
        self.covered = end

    def stop(self) -> None:
        """Deduplication is off: everything is forgotten."""
        self._known.clear()
        self._changed.clear()
        self.covered = OFF

    # Being durable ------------------------------------------------------------------------

    def take_delta(self) -> list[bytes]:
        """What changed since the last call."""
        if self.covered == self._written:
            return []
        changed, self._changed = self._changed, {}
        return self._pieces(changed)

    def snapshot(self) -> list[bytes]:
        """Everything."""
        self._changed = {}
        if self.covered == OFF:
            self._written = OFF
            return []
        self._written = 0  # so much is covered before the last piece
        return self._pieces([name for name, known in self._known.items() if known.stored > NO_ID])

    def _pieces(self, names: Iterable[str]) -> list[bytes]:
        """Only the last one covers what they say together."""
        pieces: list[bytes] = []
        records: list[bytes] = []
        size = 0
        for name in names:
            record = self._record(name)
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
        return _NAME.pack(known.stored, known.used_ms, len(encoded)) + encoded

    def apply(self, data: bytes) -> None:
        """Replay a piece."""
        covered, n = _HEAD.unpack_from(data)
        at = _HEAD.size
        for _ in range(n):
            highest, used_ms, size = _NAME.unpack_from(data, at)
            at += _NAME.size + size
            self._learn(data[at - size : at].decode(), highest, used_ms)
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes behind the last name")
        if covered == OFF:
            self.stop()
        self.covered = self._written = covered

    def _learn(self, name: str, highest: int, used_ms: int) -> None:
        self._known.pop(name, None)
        if highest > NO_ID:
            known = self._known[name] = Known()
            known.pushed = known.stored = highest
            known.used_ms = used_ms
