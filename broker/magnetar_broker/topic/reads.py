"""Counts the entries of a topic that are read to be delivered."""

from magnetar_broker.base.meter import Meter
from magnetar_storage.log.log_reader import LogReader


class Reads:
    """The counters and rates of the reads of one topic."""

    __slots__ = ("_entries", "meter")

    def __init__(self, entries: LogReader) -> None:
        self._entries = entries
        self.meter = Meter(2)

    def totals(self) -> tuple[int, int]:
        """Return the number of entries read, and how many of them were read from disk."""
        entries = self._entries
        return entries.from_cache + entries.from_disk, entries.from_disk
