"""Formats figures: times as text, means."""

from datetime import UTC, datetime


def iso(ms: int) -> str:
    """Return a time in ms since 1970 as ISO 8601 in UTC, with as many decimals as it has.

    Beyond the calendar, where times that clients set can be, the number as text.
    """
    try:
        time = datetime.fromtimestamp(ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    decimals = f".{ms % 1000:03}".rstrip("0").rstrip(".")
    return f"{time.replace(tzinfo=None).isoformat()}{decimals}Z"


def ratio(total: float, parts: float) -> float:
    """Return a mean; 0 if there is nothing to divide by."""
    return total / parts if parts else 0.0
