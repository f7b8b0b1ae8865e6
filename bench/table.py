"""Results as a table for people and as JSON for machines."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import NamedTuple

from bench.rows import ROWS, Measures

BUDGET = 2.5
"""What an unbatched publish may cost in CPU, in multiples of the floor's."""
BUDGET_ROW, BUDGET_MEASURE = "publish", "cpu_us"
SUBJECT, REFERENCE = "magnetar", "floor"


@dataclass
class Results:
    """All rounds: `measures[row][server]` has one `Measures` a round."""

    machine: dict[str, str | int | float]
    rounds: int
    scale: dict[str, int]
    measures: dict[str, dict[str, list[Measures]]] = field(default_factory=dict)

    def add(self, row: str, server: str, measures: Measures) -> None:
        """One more round of a row."""
        self.measures.setdefault(row, {}).setdefault(server, []).append(measures)

    def values(self, row: str, server: str, measure: str) -> list[float]:
        """Of each round; empty if the row has no such measure."""
        rounds = self.measures.get(row, {}).get(server, [])
        return [measures[measure] for measures in rounds if measure in measures]

    def ratio(self, row: str, measure: str) -> float | None:
        """Subject to reference: the median over rounds, so that drift of the machine cancels."""
        pairs = zip(
            self.values(row, SUBJECT, measure), self.values(row, REFERENCE, measure), strict=False
        )
        ratios = [subject / reference for subject, reference in pairs if reference > 0]
        return median(ratios) if ratios else None

    def as_json(self) -> str:
        """Everything measured, and the ratios."""
        ratios = {
            row: {column.measure: self.ratio(row, column.measure) for column in COLUMNS}
            for row in self.measures
        }
        return json.dumps(asdict(self) | {"ratios": ratios}, indent=2) + "\n"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def tenths(value: float) -> str:
    return f"{value:,.1f}"


def hundredths(value: float) -> str:
    return f"{value:,.2f}"


class Column(NamedTuple):
    """One measure."""

    measure: str
    heading: str
    text: Callable[[float], str]


COLUMNS = (
    Column("msg_per_s", "msg/s", whole),
    Column("cpu_us", "CPU us/msg", hundredths),
    Column("p50_ms", "p50 ms", hundredths),
    Column("p99_ms", "p99 ms", hundredths),
    Column("start_ms", "start ms", whole),
    Column("rss_mib", "RSS MiB", tenths),
    Column("uss_mib", "USS MiB", tenths),
    Column("generator_percent", "load CPU %", whole),
)


def cell(values: list[float], text: Callable[[float], str]) -> str:
    """The median and the range, if there is one."""
    if not values:
        return ""
    low, middle, high = text(min(values)), text(median(values)), text(max(values))
    return middle if low == high else f"{middle} ({low}-{high})"


def table(results: Results) -> str:
    """A line for each row and server, and one with their ratios."""
    lines = [["", "", *(column.heading for column in COLUMNS)]]
    for row, servers in results.measures.items():
        title = ROWS[row][0]
        for server in servers:
            cells = [cell(results.values(row, server, c.measure), c.text) for c in COLUMNS]
            lines.append([title, server, *cells])
            title = ""
        ratios = [results.ratio(row, column.measure) for column in COLUMNS]
        lines.append(["", "ratio", *("" if r is None else f"{r:.2f}x" for r in ratios)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if at < 2 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def verdict(results: Results) -> str:
    """Whether an unbatched publish keeps its budget."""
    ratio = results.ratio(BUDGET_ROW, BUDGET_MEASURE)
    if ratio is None:
        return "budget: not measured"
    kept = "kept" if ratio <= BUDGET else "EXCEEDED"
    return (
        f"budget: {kept}: an unbatched publish costs {ratio:.2f} times the floor's CPU, "
        f"{BUDGET} allowed"
    )
