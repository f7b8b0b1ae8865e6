"""The time limits of requests to a store of objects."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The time limits of requests, and the number of retries."""

    connect_seconds: float = 5
    request_seconds: float = 60
    """The longest time for one request with its answer; a part of an upload has 8 MiB."""
    retries: int = 4
    """The number of times that a failed request is repeated, unless it has a condition."""
    retry_seconds: float = 60
    """The time after which no further repetition begins."""


DEFAULT_LIMITS = TimeLimits()
