"""Counts registrations, checks and deletions of schemas by namespace."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final

from magnetar_broker.base.durations import Durations
from magnetar_storage.runtime.execution import Clock

MAX_NAMESPACES: Final = 1000
"""The most namespaces that are counted separately; the rest share one count."""
OTHER: Final = "other"


class Work(Enum):
    """An operation on a topic's schema."""

    GET = "get"
    PUT = "put"
    DEL = "del"


class Counts:
    """The counts of one namespace since the process started."""

    def __init__(self, clock: Clock) -> None:
        self.durations = {work: Durations(clock) for work in Work}
        self.failed = dict.fromkeys(Work, 0)
        self.compatible = self.incompatible = 0
        """The numbers of schemas that were compatible with the versions of a topic, or were not."""


class SchemaCounts:
    """The counts of the namespaces whose schemas were used."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[str, Counts] = {}

    def of(self, namespace: str) -> Counts:
        """Return the counts of a namespace."""
        found = self._of.get(namespace)
        if found is None:
            if len(self._of) >= MAX_NAMESPACES:  # promise: counts of namespaces are limited
                namespace = OTHER
            found = self._of.setdefault(namespace, Counts(self._clock))
        return found

    def all(self) -> list[tuple[str, Counts]]:
        """Return the namespaces, with their counts."""
        return list(self._of.items())

    @contextmanager
    def doing(self, work: Work, namespace: str) -> Iterator[None]:
        """Count this work around the body; an error is a failure."""
        counts = self.of(namespace)
        began_ms = counts.durations[work].begin()
        try:
            yield
        except BaseException:
            counts.failed[work] += 1  # promise: work with schemas that fails is counted
            raise
        finally:
            counts.durations[work].end(began_ms)
