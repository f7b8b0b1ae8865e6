"""The pauses between attempts to connect a link again."""

FIRST_SECONDS, LONGEST_SECONDS = 0.1, 5.0


class Backoff:
    """Pauses that double as long as attempts fail."""

    def __init__(self) -> None:
        self._next = FIRST_SECONDS

    def pause(self) -> float:
        """Return the seconds to wait before the next attempt."""
        pause = self._next
        self._next = min(2 * pause, LONGEST_SECONDS)
        return pause

    def succeeded(self) -> None:
        """Begin with the shortest pause again."""
        self._next = FIRST_SECONDS  # promise: a link that was lost is soon connected again
