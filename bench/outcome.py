"""Results of all rounds, and whether they reach their targets (marks)."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench.rows import ROWS, Mark, Row, crash_row
from bench.usage import Measures

SUBJECTS = "compiled", "magnetar"
"""The marks count for the first of them that was measured: wheels are compiled."""


@dataclass(frozen=True)
class Verdict:
    """On one mark."""

    mark: Mark
    value: float | None
    """Of the measure, or its ratio; None if it was not measured."""

    @property
    def passed(self) -> bool:
        """False too if nothing was measured."""
        if self.value is None:
            return False
        within = self.value <= self.mark.bound
        return within if self.mark.at_most else self.value >= self.mark.bound


@dataclass
class Results:
    """All rounds: `measures[row][server]` has one `Measures` a round."""

    machine: dict[str, str | int | float]
    rounds: int
    scale: float
    gigabytes: int = 0
    measures: dict[str, dict[str, list[Measures]]] = field(default_factory=dict)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    """Row, server and reason of what could not be measured."""

    @classmethod
    def load(cls, path: Path) -> "Results":
        """What `as_json` wrote."""
        stored = json.loads(path.read_text())
        del stored["marks"]
        return cls(**stored)

    @property
    def rows(self) -> dict[str, Row]:
        """Those that were measured."""
        return {key: row_of(key, self.gigabytes) for key in self.measures}

    @property
    def servers(self) -> list[str]:
        """Those that were measured, each once."""
        return list(dict.fromkeys(name for row in self.measures.values() for name in row))

    @property
    def subject(self) -> str:
        """The server that the marks count for."""
        return next((name for name in SUBJECTS if name in self.servers), SUBJECTS[-1])

    def add(self, row: str, server: str, measured: Measures | str) -> None:
        """One more round of a row, or why there is none."""
        rounds = self.measures.setdefault(row, {}).setdefault(server, [])
        if isinstance(measured, str):
            self.failures.append((row, server, measured))
        else:
            rounds.append(measured)

    def values(self, row: str, server: str, measure: str) -> list[float]:
        """Of each round; empty if the row has no such measure."""
        rounds = self.measures.get(row, {}).get(server, [])
        return [measures[measure] for measures in rounds if measure in measures]

    def value(self, row: str, server: str, measure: str) -> float | None:
        """The median over rounds."""
        values = self.values(row, server, measure)
        return median(values) if values else None

    def ratio(self, row: str, measure: str, of: str) -> float | None:
        """`subject` to another: the median over rounds, so that drift of the machine cancels."""
        subjects, others = self.values(row, self.subject, measure), self.values(row, of, measure)
        ratios = [s / other for s, other in zip(subjects, others, strict=False) if other > 0]
        return median(ratios) if ratios else None

    def verdicts(self, row: str) -> list[Verdict]:
        """On every mark of a row."""
        return [
            Verdict(
                mark,
                self.ratio(row, mark.measure, mark.of)
                if mark.of
                else self.value(row, self.subject, mark.measure),
            )
            for mark in self.rows[row].marks
        ]

    def as_json(self) -> str:
        """Everything measured, and the verdicts."""
        marks = {
            row: [
                {**asdict(verdict.mark), "value": verdict.value, "passed": verdict.passed}
                for verdict in self.verdicts(row)
            ]
            for row in self.measures
        }
        return json.dumps(asdict(self) | {"marks": marks}, indent=2) + "\n"


def row_of(key: str, gigabytes: int) -> Row:
    """By its key, which for the crash row is no key of `ROWS`."""
    return ROWS.get(key) or crash_row(gigabytes)
