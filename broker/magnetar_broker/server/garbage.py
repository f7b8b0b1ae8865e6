"""When the collector looks for cyclic garbage: not among very many topics again and again."""

import gc

from magnetar_broker.topics import Topics

THRESHOLD = 10_000
"""New objects between two looks for cyclic garbage, of which messages make none.  With the usual
700, what waits for the disk grows old meanwhile and is looked through again and again: a third of
the CPU where many topics are published to at once."""
OPENED = 500
"""So many topics opened, and all there is counts as here to stay."""
ENDED = 1000
"""More topics ended than this, and than a quarter of those there are, are worth a look at all."""
LOOK_SECONDS = 60
FORGOTTEN = "forgotten topics"
"""What the job is called in the upkeep."""


class Garbage:
    """Freezes what is here to stay: the collector stops the broker while it looks through topics,
    for a second where there are tens of thousands.

    What is frozen is freed as ever when nothing refers to it.  Topics do refer to themselves: of
    those that ended, and of all that was frozen along with them, `look` makes an end.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._frozen_at = self._looked_at = 0

    def start(self) -> None:
        """Switch the collector on; what a start made stays."""
        self._topics.on_opened = self._opened
        gc.freeze()
        gc.set_threshold(THRESHOLD)
        gc.enable()

    def _opened(self) -> None:
        if self._topics.opened - self._frozen_at >= OPENED:
            self._frozen_at = self._topics.opened
            gc.freeze()

    async def look(self) -> None:
        """If many topics have ended, free what is left of them; that takes a moment."""
        ended = self._topics.opened - len(self._topics)
        if ended - self._looked_at >= ENDED + len(self._topics) // 4:
            self._looked_at = ended
            gc.unfreeze()
            gc.collect()
            gc.freeze()
