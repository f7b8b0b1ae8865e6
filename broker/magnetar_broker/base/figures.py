"""How figures are shown: times as text, means."""

from datetime import UTC, datetime


def iso(ms: int) -> str:
    """A time as ISO 8601 in UTC; 0 is the beginning of 1970."""
    time = datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)
    return time.isoformat(timespec="milliseconds" if ms % 1000 else "seconds") + "Z"


def ratio(total: float, parts: float) -> float:
    """A mean; 0 if there is nothing to divide by."""
    return total / parts if parts else 0.0
