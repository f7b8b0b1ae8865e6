"""The findings of a check of a data directory."""

from collections.abc import Callable
from dataclasses import dataclass, field

from magnetar_storage.interfaces import SegmentId

Progress = Callable[[int], None]
"""Called with the number of bytes checked since the last call."""


@dataclass(frozen=True)
class Problem:
    """Something damaged, missing or unlisted, and the entries that are lost because of it."""

    file: str
    offset: int
    text: str
    segment: SegmentId | None = None
    first_entry: int | None = None
    last_entry: int | None = None
    topic: str | None = None
    """The key of the topic's record, if a topic lists the segment."""
    damage: bool = True
    """False for leftovers of a crash, which are harmless."""

    @property
    def entries(self) -> int:
        """The number of entries that are known to be lost."""
        if self.first_entry is None or self.last_entry is None:
            return 0
        return self.last_entry - self.first_entry + 1


@dataclass
class Report:
    """The extent of a check, and the problems found."""

    problems: list[Problem] = field(default_factory=list)
    topics: int = 0
    segments: int = 0
    entries: int = 0
    bytes: int = 0
    remote: int = 0
    """The number of segments that are only in a store of objects; they are not checked."""
    objects: int = 0
    """The segments that are only in a store of objects, and were checked there."""

    @property
    def damaged(self) -> bool:
        return any(problem.damage for problem in self.problems)
