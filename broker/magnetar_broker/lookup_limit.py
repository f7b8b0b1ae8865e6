"""A bound on the lookups that are under way."""

from magnetar_broker.errors import TooManyRequests


class LookupLimit:
    """`with` it, a lookup counts while it lasts; `TooManyRequests` if it is one too many."""

    __slots__ = ("_limit", "_present")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._present = 0

    def __enter__(self) -> None:
        if self._present >= self._limit:
            raise TooManyRequests(
                f"{self._limit} lookups are under way (maxConcurrentLookupRequest)"
            )
        self._present += 1

    def __exit__(self, *_: object) -> None:
        self._present -= 1
