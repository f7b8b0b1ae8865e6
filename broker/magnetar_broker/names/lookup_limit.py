"""The limit of concurrent lookups."""

from magnetar_broker.base.errors import TooManyRequests


class LookupLimit:
    """A context manager that counts a running lookup; `TooManyRequests` at the limit."""

    __slots__ = ("_limit", "_present")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._present = 0

    def __enter__(self) -> None:
        if self._present >= self._limit:
            raise TooManyRequests(
                f"{self._limit} lookups are in progress, which is the limit "
                "(maxConcurrentLookupRequest): retry later"
            )
        self._present += 1

    def __exit__(self, *_: object) -> None:
        self._present -= 1
