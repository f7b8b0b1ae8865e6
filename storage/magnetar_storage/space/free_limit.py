"""How many bytes of a disk are to stay free."""

from typing import Final, NamedTuple

KEPT_BYTES: Final = 1 << 30
KEPT_PART: Final = 50
"""Of the disk: 2 %."""
MOST_PART: Final = 10
"""A small disk keeps a tenth free at most."""
RESUMED_PART: Final = 4
"""Publishing goes on when a quarter more than the limit is free."""
RESERVE_BYTES: Final = 32 << 20
RESERVED_PART: Final = 40
"""Of a small disk: a reserve takes a fortieth of it at most."""
LIMIT_PART: Final = 4
"""Of a low limit: giving back the two reserves of a process does not make enough room by itself."""


class FreeLimit(NamedTuple):
    """A limit of free bytes: a number, a share of the disk, or the default of a disk's size."""

    bytes: int | None = None
    percent: float | None = None

    def __str__(self) -> str:
        """The text of a setting with this value."""
        if self.bytes is not None:
            return str(self.bytes)
        return "auto" if self.percent is None else f"{self.percent:g}%"

    def of(self, size: int) -> int:
        """The limit on a disk of that size; 0 if there is none."""
        if self.bytes is not None:
            return self.bytes
        if self.percent is not None:
            return int(size * self.percent / 100)
        return min(max(KEPT_BYTES, size // KEPT_PART), size // MOST_PART)


def resumed_at(limit: int) -> int:
    """With how many free bytes it goes on, once less than the limit was free."""
    return limit + limit // RESUMED_PART


def reserve_bytes(size: int, limit: int) -> int:
    """The bytes of each reserve on a disk of that size; none without a limit."""
    return min(RESERVE_BYTES, size // RESERVED_PART, limit // LIMIT_PART)


def named_bytes(size: int) -> str:
    """A number of bytes for people."""
    for unit, divisor in (("GB", 10**9), ("MB", 10**6)):
        if size >= divisor:
            return f"{size / divisor:.1f} {unit}"
    return f"{size / 1000:.0f} kB"
