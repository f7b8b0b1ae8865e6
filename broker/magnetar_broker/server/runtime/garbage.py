"""Tuning of Python's cyclic garbage collector, which would scan all topics again and again."""

import gc

from magnetar_broker.topic.loaded_topics import Topics

THRESHOLD = 10_000
"""The number of new objects between two collections; messages create no cyclic garbage, so
collections can be rare.  With Python's default of 700, entries that wait for the disk survive
several collections and are scanned each time: a third of the CPU when many topics are published to
at once."""
OPENED = 500
"""The number of opened topics after which everything that exists is frozen."""
CLOSED = 1000
"""The closed topics, above a quarter of the open ones, after which frozen objects are collected."""
CHECK_SECONDS = 60
CLOSED_TOPICS = "collection of closed topics"
"""The name of the periodic job."""


class Garbage:
    """Freezes long-lived objects, so that collections skip them.

    A collection stops the broker while it scans: for a second where there are tens of thousands of
    topics.  A frozen object is still freed when its last reference is dropped, but a closed topic
    is part of a reference cycle: `collect_closed` frees those, together with everything that was
    frozen along with them.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._frozen_at = self._collected_at = 0

    def start(self) -> None:
        """Enable the collector, with all objects of the start frozen."""
        self._topics.on_opened = self._opened
        gc.freeze()
        gc.set_threshold(THRESHOLD)
        gc.enable()

    def _opened(self) -> None:
        if self._topics.opened - self._frozen_at >= OPENED:
            self._frozen_at = self._topics.opened
            gc.freeze()

    async def collect_closed(self) -> None:
        """Collect everything, frozen objects too, if many topics were closed; the loop pauses."""
        closed = self._topics.opened - len(self._topics)
        if closed - self._collected_at >= CLOSED + len(self._topics) // 4:
            self._collected_at = closed
            gc.unfreeze()
            gc.collect()
            gc.freeze()
