"""The limit of bytes that are to stay free on a disk."""

from typing import Final, NamedTuple

KEPT_BYTES: Final = 1 << 30
KEPT_PART: Final = 50
"""The divisor of the disk's size for the default limit: 2 %."""
MOST_PART: Final = 10
"""The divisor of the disk's size for the highest default limit: a tenth of a small disk."""
RESUMED_PART: Final = 4
"""The divisor of the limit: publishing resumes when a quarter more than the limit is free."""
RESERVE_BYTES: Final = 32 << 20
RESERVED_PART: Final = 40
"""The divisor of a small disk's size: a reserve takes at most a fortieth of the disk."""
LIMIT_PART: Final = 4
"""The divisor of a low limit, so that releasing the two reserves of a process frees too little."""


class FreeLimit(NamedTuple):
    """A limit of free bytes: a number, a share of the disk, or the default for the disk's size."""

    bytes: int | None = None
    percent: float | None = None

    def __str__(self) -> str:
        """Return the text of a setting with this value."""
        if self.bytes is not None:
            return str(self.bytes)
        return "auto" if self.percent is None else f"{self.percent:g}%"

    def of(self, size: int) -> int:
        """Return the limit on a disk of `size` bytes; 0 if there is no limit."""
        if self.bytes is not None:
            return self.bytes
        if self.percent is not None:
            return int(size * self.percent / 100)
        return min(max(KEPT_BYTES, size // KEPT_PART), size // MOST_PART)


def resumed_at(limit: int) -> int:
    """Return the free bytes at which work resumes, once less than the limit was free."""
    return limit + limit // RESUMED_PART


def reserve_bytes(size: int, limit: int) -> int:
    """Return the bytes of each reserve on a disk of `size` bytes; 0 without a limit."""
    return min(RESERVE_BYTES, size // RESERVED_PART, limit // LIMIT_PART)


def named_bytes(size: int) -> str:
    """Return a number of bytes as text for people."""
    for unit, divisor in (("GB", 10**9), ("MB", 10**6)):
        if size >= divisor:
            return f"{size / divisor:.1f} {unit}"
    return f"{size / 1000:.0f} kB"
