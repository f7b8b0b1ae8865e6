"""A common limit for the memory of all readers: entries read from disk and not sent yet."""

from collections.abc import Callable, Collection

DEFAULT_LIMIT = 128 << 20
SMALLEST_READ = 16 << 10
"""The payload bytes that a read may return, however many readers there are."""
READS_AT_ONCE = 32
"""The most reads under way; one thread serves them, so more would not be faster."""

Begin = Callable[[int, int], None]
"""Begins a read, given the most entries and bytes that it may return."""


class ReadBudget:
    """The memory of all readers, of at most `limit` bytes.

    A read reserves the most that it can return before it begins.  Without room for that, the data
    that arrived longest ago is dropped, and its reader reads it again when it can send it.  If
    that does not help, because reads under way have reserved all, the read waits: first come,
    first served.  Data is sent before the next read begins, so every reader makes progress.

    The more readers there are, the smaller the reads, so that little is dropped and read twice.
    Only a single entry that is larger than its reservation exceeds the limit, while it is sent;
    then the data that arrived longest ago is dropped.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.held = 0
        """The bytes held, bytes reserved for reads under way included."""
        self.dropped = 0
        """The bytes of data dropped before all of it was sent."""
        self._holders: dict[Holding, None] = {}  # that have entries, by age of the latest ones
        self._waiting: dict[Holding, tuple[int, int, Begin]] = {}
        self._under_way = 0

    @property
    def waiting(self) -> int:
        """The number of readers that wait until others have read."""
        return len(self._waiting)

    def _size(self, most_bytes: int) -> int:
        """Return the share of a reader that holds one read and has another under way, or more of
        the free bytes while most of the others hold less."""
        readers = len(self._holders) + len(self._waiting) + self._under_way + 1
        # An eighth of what is free: a few readers get large reads, and many that begin at once do
        # not take everything.
        free = self.limit - self.held
        return min(most_bytes, max(self.limit // (2 * readers), free // 8, SMALLEST_READ))

    def _begin(self, holding: "Holding", entries: int, size: int, waits: bool) -> int:
        """Reserve room for a read; returns its bytes, or 0 if it cannot begin now."""
        share = self._size(size)
        cost = share + holding.entry_bytes * entries_of(entries, share, size)
        if self._under_way >= READS_AT_ONCE:
            return 0
        # A read ahead drops nothing of others that arrived after its own data.
        fits = self._make_room(cost, None if waits else holding)
        # With no read under way nothing would end the wait: then one read exceeds the limit.
        if not fits and (not waits or self._under_way):
            return 0
        self._under_way += 1
        self.held += cost
        holding.reserved = cost
        return share

    def _make_room(self, cost: int, spared: "Holding | None") -> bool:
        """Drop the data that arrived longest ago until `cost` fits; stop at the reader `spared`."""
        while self.held + cost > self.limit:
            oldest = next(iter(self._holders), None)
            if oldest is None or oldest is spared:
                return False
            self.dropped += oldest.held
            oldest.keep(0)
            oldest.drop()
        return True

    def _serve(self) -> None:
        """Begin waiting reads, as far as there is room."""
        while self._waiting:
            holding, (entries, size, begin) = next(iter(self._waiting.items()))
            share = self._begin(holding, entries, size, waits=True)
            if not share:
                return
            del self._waiting[holding]
            begin(entries_of(entries, share, size), share)


class Holding:
    """The memory of one reader, which has at most one read that is under way or waits.

    `drop` is called when the reader must forget its entries.
    """

    __slots__ = ("_budget", "drop", "entry_bytes", "held", "reading", "reserved", "wanted")

    def __init__(self, budget: ReadBudget, drop: Callable[[], None], entry_bytes: int) -> None:
        self._budget = budget
        self.drop = drop
        self.entry_bytes = entry_bytes
        """The bytes that an entry needs in addition to its payload."""
        self.held = 0
        self.reserved = 0
        self.reading = False
        """Whether a read is under way or waits."""
        self.wanted = False
        """Whether the reader needs the data that is read: from `read` to `release`."""

    # Reading ------------------------------------------------------------------------

    def use(self, budget: ReadBudget) -> None:
        """Take the memory from another budget from now on, unless a read is under way or waits."""
        if budget is self._budget or self.reading:
            return
        held = self.held
        if held:
            self.keep(0)
        self._budget = budget
        if held:
            self.keep(held)

    def read(self, entries: int, size: int, begin: Begin) -> None:
        """Begin a read of at most `entries` and `size` bytes, now or when it is the reader's turn.

        There is one read at a time: during it, this only marks its data as wanted.  When a read has
        ended call `ended`, send what can be sent, and call `finished`.
        """
        self.wanted = True
        if self.reading:
            return
        self.reading = True
        budget = self._budget
        # Behind those that wait already: a small read must not overtake a large one for ever.
        share = 0 if budget._waiting else budget._begin(self, entries, size, waits=True)
        if share:
            begin(entries_of(entries, share, size), share)
        else:
            budget._waiting[self] = (entries, size, begin)

    def read_ahead(self, entries: int, size: int, begin: Begin) -> None:
        """Begin a read of entries that are not needed yet, unless there is no room for them now."""
        budget = self._budget
        if self.reading or budget._waiting:
            return
        share = budget._begin(self, entries, size, waits=False)
        if share:
            self.reading = True
            begin(entries_of(entries, share, size), share)

    def ended(self) -> None:
        """Note that the read has ended; call `keep` if the reader holds other data than before."""
        self._budget._under_way -= 1
        self._budget.held -= self.reserved
        self.reserved = 0
        self.reading = False

    def finished(self) -> None:
        """Note that the data was sent as far as possible: other readers may use its memory."""
        self._budget._make_room(0, None)  # an entry may be larger than what was reserved for it
        self._budget._serve()

    # Holding ------------------------------------------------------------------------

    def size_of(self, payloads: Collection[bytes]) -> int:
        """Return the bytes that the reader needs for entries with these payloads."""
        return sum(map(len, payloads)) + self.entry_bytes * len(payloads)

    def keep(self, size: int) -> None:
        """Note that the reader holds `size` bytes in total from now on."""
        budget = self._budget
        budget.held += size - self.held
        self.held = size
        # To the end of the order, which is by age.
        budget._holders.pop(self, None)
        if size:
            budget._holders[self] = None

    def grow(self, size: int) -> bool:
        """Hold `size` more bytes; returns False, without effect, if they exceed the limit."""
        budget = self._budget
        if budget.held + size > budget.limit:
            return False
        if not self.held:
            budget._holders[self] = None
        budget.held += size
        self.held += size
        return True

    def shrink(self, size: int) -> None:
        """Note that the reader has given up `size` of its bytes."""
        self._budget.held -= size
        self.held -= size
        if not self.held:
            self._budget._holders.pop(self, None)

    def release(self) -> None:
        """Drop what the reader holds, and cancel a waiting read: it needs no entries at present."""
        self.wanted = False
        if self._budget._waiting.pop(self, None) is not None:
            self.reading = False
        if self.held:
            self.keep(0)
        self.drop()


def entries_of(most: int, share: int, size: int) -> int:
    """Return the most entries of a read of `share` bytes, if one of `size` may return `most`."""
    return max(1, most * share // size)
