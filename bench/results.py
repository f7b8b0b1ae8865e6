"""Results of all rounds, as JSON and as a table for people."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import NamedTuple

from bench.rows import ROWS
from bench.servers import SERVERS
from bench.usage import Measures


def places(digits: int) -> Callable[[float], str]:
    """Return a function that formats a number with this many decimals."""
    return lambda value: f"{value:,.{digits}f}"


def significant(value: float) -> str:
    """Format a number with at least three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Line(NamedTuple):
    """The format of one measure in the table."""

    heading: str
    text: Callable[[float], str]


LINES = {
    "msg_per_s": Line("a second", places(0)),
    "local_per_s": Line("with local files, a second", places(0)),
    "cold_gb_per_s": Line("GB a second from the store", places(2)),
    "requests_per_gb": Line("requests a GB", places(0)),
    "cpu_us": Line("CPU us each", significant),
    "peak_mib": Line("RSS peak MiB", places(0)),
    "client_percent": Line("CPU % of the load", places(0)),
    "kept_up": Line("kept up", places(2)),
    "behind_ms": Line("behind ms", places(0)),
    "alone_p99_ms": Line("p99 ms alone", places(2)),
    "p50_ms": Line("p50 ms", places(2)),
    "p99_ms": Line("p99 ms", places(2)),
    "p999_ms": Line("p99.9 ms", places(2)),
    "of_alone": Line("p99 relative to that alone", places(2)),
    "more_cpu": Line("CPU relative to that alone", places(2)),
    "longest_ms": Line("longest ms", places(1)),
    "official_per_s": Line("official client, a second", places(0)),
    "official_p50_ms": Line("official client, p50 ms", places(2)),
    "of_official": Line("relative to the official client", places(2)),
    "all_columns_per_s": Line("all columns, a second", places(0)),
    "dedup_per_s": Line("exactly once by deduplication, a second", places(0)),
    "transaction_per_s": Line("exactly once in transactions, a second", places(0)),
    "holes_mib": Line("more MiB for the holes", places(1)),
    "rest_per_s": Line("the rest delivered, a second", places(0)),
    "came_again": Line("delivered again", places(0)),
    "calm_gap_ms": Line("longest ms between receipts before", places(1)),
    "publish_gap_ms": Line("longest ms between receipts", places(1)),
    "opening_gap_ms": Line("a topic opened after ms", places(0)),
    "topic_kib": Line("KiB a topic", places(1)),
    "idle_percent": Line("CPU % idle", places(1)),
    "reopened_per_s": Line("opened again, a second", places(0)),
    "reopened_cpu_us": Line("opened again, CPU us each", significant),
    "used_per_s": Line("opened and used, a second", places(0)),
    "used_cpu_us": Line("opened and used, CPU us each", significant),
    "stored_gb": Line("stored GB", places(1)),
    "healthy_ms": Line("healthy after ms", places(0)),
    "first_ms": Line("first message after ms", places(0)),
    "rest_mib": Line("RSS MiB after REST and a scrape", places(1)),
    "connection_kib": Line("KiB a connection", places(1)),
    "rss_mib": Line("RSS MiB", places(0)),
    "pss_mib": Line("PSS MiB", places(0)),
}
"""The measures in the table, in order."""


@dataclass
class Results:
    """The results of all rounds: `measures[row][server]` has one `Measures` per round."""

    machine: dict[str, str | int | float]
    rounds: int
    scale: float
    measures: dict[str, dict[str, list[Measures]]] = field(default_factory=dict)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    """Row, server and reason of each failed measurement."""

    @property
    def servers(self) -> list[str]:
        """The measured servers, in the order of `SERVERS`; the subject is first."""
        measured = {name for row in self.measures.values() for name in row}
        return [name for name in SERVERS if name in measured]

    def add(self, row: str, server: str, measured: Measures | str) -> None:
        """Add the result of a row in one round, or the reason for its failure."""
        rounds = self.measures.setdefault(row, {}).setdefault(server, [])
        if isinstance(measured, str):
            self.failures.append((row, server, measured))
        else:
            rounds.append(measured)

    def values(self, row: str, server: str, measure: str) -> list[float]:
        """Return the value of each round; empty if the row has no such measure."""
        rounds = self.measures[row].get(server, [])
        return [measures[measure] for measures in rounds if measure in measures]

    def ratio(self, row: str, measure: str, of: str) -> float | None:
        """Return the ratio of the subject's measure to another server's: the median over rounds, so
        that drift of the machine cancels.
        """
        subjects = self.values(row, self.servers[0], measure)
        others = self.values(row, of, measure)
        ratios = [s / other for s, other in zip(subjects, others, strict=False) if other > 0]
        return median(ratios) if ratios else None

    def as_json(self) -> str:
        """Return all results as JSON."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def summary(self) -> str:
        """Return versions and machine, one sentence each."""
        known = self.machine
        return (
            f"Magnetar {known['magnetar']}, Python {known['python']}, {known['cpus']} CPUs, "
            f"{known['system']}; an fdatasync of 16 KiB takes {known['fdatasync_p50_ms']:.2f} ms "
            f"(p99 {known['fdatasync_p99_ms']:.2f} ms). Medians of {self.rounds} round(s), "
            f"scale {self.scale:g}. The load average was {known['load_before']:.1f} before the "
            f"run and {known['load_after']:.1f} after it."
        )

    def table(self) -> str:
        """Return medians, ranges and ratios in Markdown: a line for each measure of each row."""
        subject, *others = self.servers
        head = ["row", "measure", SERVERS[subject].title]
        for other in others:
            head += [SERVERS[other].title, f"/ {SERVERS[other].title}"]
        lines = [head]
        for row in self.measures:
            title = str(ROWS[row])
            for measure, line in LINES.items():
                cells = [self._cell(row, subject, measure)]
                for other in others:
                    ratio = self.ratio(row, measure, other)
                    cells += [
                        self._cell(row, other, measure),
                        "" if ratio is None else f"{ratio:.2f}",
                    ]
                if any(cells):
                    lines.append([title, line.heading, *cells])
                    title = ""
        return markdown(lines)

    def _cell(self, row: str, server: str, measure: str) -> str:
        """Return the median, and the range if values differ."""
        values, text = self.values(row, server, measure), LINES[measure].text
        if not values:
            return ""
        low, middle, high = text(min(values)), text(median(values)), text(max(values))
        return middle if low == high else f"{middle} ({low}-{high})"


def markdown(lines: list[list[str]]) -> str:
    """Return an aligned table of a head and lines; all columns but the first two are numbers."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width if at < 2 else "-" * (width - 1) + ":" for at, width in enumerate(widths)]
    return "\n".join(
        "| "
        + " | ".join(
            text.ljust(width) if at < 2 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in (lines[0], rule, *lines[1:])
    )
