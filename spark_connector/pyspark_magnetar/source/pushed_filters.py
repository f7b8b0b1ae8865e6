"""The tasks of a batch read that the query's filters exclude. Pure.

Spark evaluates every filter again, so a task stays unless its range shows that no row can pass.
Filters on the publish time exclude nothing: producers set it, and it need not ascend with the
message ids.  Neither do lower limits of the ledger: a chunked message is read with its first
chunk, and its id is that of the last one, which may be in any later ledger.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    In,
    LessThan,
    LessThanOrEqual,
)

from magnetar_proto.names import TopicName
from pyspark_magnetar.source.offsets import Range

TOPIC, PARTITION, LEDGER = "__topic", "__partition", "__ledger"
LAST_LEDGERS: Final[Sequence[tuple[Any, Callable[[int], int]]]] = (
    (LessThan, lambda value: value - 1),
    (LessThanOrEqual, lambda value: value),
)
"""The last ledger that can satisfy a comparison with a value."""


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """The conditions on the range of a task; None means no condition."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    last_ledger: int | None = None

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> Self:
        """Combine filters that must all hold; unknown kinds of filters and columns are ignored."""
        found = cls()
        for one in filters:
            found = found._and(one)
        return found

    def _and(self, one: Filter) -> Self:
        if isinstance(one, EqualTo) and len(one.attribute) == 1:
            return self._one_of(one.attribute[0], (one.value,))
        if isinstance(one, In) and len(one.attribute) == 1 and one.value:
            return self._one_of(one.attribute[0], one.value)
        for kind, last_of in LAST_LEDGERS:
            if isinstance(one, kind) and one.attribute == (LEDGER,) and one.value is not None:
                return self._up_to(last_of(one.value))
        return self

    def _one_of(self, name: str, values: tuple[Any, ...]) -> Self:
        values = tuple(value for value in values if value is not None)  # nothing equals null
        if not values:
            return replace(self, topics=frozenset())
        if name == TOPIC:
            return replace(self, topics=_intersection(self.topics, values))
        if name == PARTITION:
            return replace(self, partitions=_intersection(self.partitions, values))
        return self._up_to(max(values)) if name == LEDGER else self

    def _up_to(self, ledger: int) -> Self:
        last = ledger if self.last_ledger is None else min(ledger, self.last_ledger)
        return replace(self, last_ledger=last)

    def keeps(self, wanted: Range) -> bool:
        """Tell whether a range may have rows for which the filters hold."""
        if self.topics is not None and wanted.topic not in self.topics:
            return False
        if self.partitions is not None and partition_of(wanted.topic) not in self.partitions:
            return False
        return self.last_ledger is None or wanted.start[0] <= self.last_ledger


def partition_of(topic: str) -> int:
    """Return the value of the partition column: -1 for a topic without partitions."""
    return TopicName.parse(topic).partition


def _intersection(known: frozenset[Any] | None, wanted: tuple[Any, ...]) -> frozenset[Any]:
    return frozenset(wanted) if known is None else known & frozenset(wanted)
