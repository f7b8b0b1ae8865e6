"""Counts accepted and refused credentials, for metrics."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class OutcomeCounts(NamedTuple):
    """A snapshot of the counters."""

    accepted: Mapping[tuple[str, str], int]
    """The numbers of accepted credentials, by provider and method."""
    refused: Mapping[tuple[str, str, str], int]
    """The numbers of refused credentials, by provider, method and reason."""


class Outcomes:
    """Counts accepted and refused credentials since the start of the process."""

    def __init__(self) -> None:
        self.accepted: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[tuple[str, str, str]] = Counter()

    def counts(self) -> OutcomeCounts:
        """Return a snapshot of the counters."""
        return OutcomeCounts(dict(self.accepted), dict(self.refused))
