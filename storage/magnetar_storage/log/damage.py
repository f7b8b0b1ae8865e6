"""The damage of stored entries that a process has found, each range logged once."""

import logging
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from magnetar_storage.errors import Corrupt, NoSegment
from magnetar_storage.interfaces import SegmentId

logger = logging.getLogger(__name__)

LASTING: Final = (Corrupt, NoSegment)
"""The errors of reads that fail again: damage, unlike trouble of a disk or of another process."""
MOST = 1000
"""The most ranges that are remembered; of further ones, only that they exist."""


class Damage(NamedTuple):
    """Consecutive entries of one segment that cannot be read."""

    segment: SegmentId
    """The ledger id on the wire; the id in the store if only that is known."""
    first: int
    last: int
    why: str
    file: str = ""
    """The damaged file; empty if a whole file is missing."""
    offset: int = 0
    """The offset of the damaged bytes in the file."""
    log: str = ""
    """The key of the log that contains the entries; empty while it is unknown."""
    found_ms: int = 0

    @property
    def entries(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        where = f"segment {self.segment}, entries {self.first} to {self.last}"
        of = f" of {self.log}" if self.log else ""
        file = f" ({self.file} at byte {self.offset})" if self.file else ""
        return f"{where}{of}{file}: {self.why}"


class FoundDamage:
    """The damage that one process has found since its start."""

    def __init__(self) -> None:
        self.on_found: Callable[[Damage], None] | None = None
        """Called with each damaged range when it is first found."""
        self.is_full = False
        """Whether more ranges were found than are remembered."""
        self.set_aside = 0
        """The number of entries that were set aside since the start."""
        self._known: dict[tuple[SegmentId, int, int], Damage] = {}

    def __len__(self) -> int:
        """Return the number of known ranges."""
        return len(self._known)

    def __iter__(self) -> Iterator[Damage]:
        return iter(list(self._known.values()))

    @property
    def entries(self) -> int:
        """The number of entries that are known to be damaged and were not set aside."""
        return sum(one.entries for one in self._known.values())

    def add(self, damage: Damage) -> None:
        """Record a damaged range, and log it unless it is known."""
        place = damage[:3]
        known = self._known.get(place)
        if known is not None:
            # Found first by a check of files, which does not know the log.
            if not known.log:
                self._known[place] = known._replace(log=damage.log)
            return
        # A failing disk damages millions of entries: neither memory nor log may fill with them.
        if len(self._known) >= MOST:
            if not self.is_full:
                logger.error("more than %d ranges of damaged entries: no more are listed", MOST)
            self.is_full = True
            return
        self._known[place] = damage
        # promise[logger.error -> logger.debug]: damage is logged when it is found
        logger.error("damaged entries: %s", damage)
        if self.on_found is not None:
            self.on_found(damage)

    def of_segments(self, segments: Collection[SegmentId]) -> list[Damage]:
        """Return the known damage of some segments."""
        return [one for one in self._known.values() if one.segment in segments]

    def forget(self, damage: Damage) -> None:
        """Forget a range: it was set aside, or can be read again."""
        self._known.pop(damage[:3], None)
        # With none left there is room again: all that is found from now on is listed.
        self.is_full = self.is_full and bool(self._known)

    def forget_segments(self, segments: Collection[SegmentId]) -> None:
        """Forget all ranges of segments that were deleted or rewritten."""
        if self._known:
            for one in self.of_segments(segments):
                self.forget(one)
