"""Results as tables for people."""

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from bench.lineup import NAMES
from bench.outcome import Results, Verdict

CELL = Callable[[float], str]


def places(digits: int) -> CELL:
    """A number as text."""
    return lambda value: f"{value:,.{digits}f}"


def significant(value: float) -> str:
    """Three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Column(NamedTuple):
    """One measure."""

    measure: str
    heading: str
    text: CELL
    compared: bool = False
    """Whether it has a ratio to other servers where it has no column of its own."""


COLUMNS = (
    Column("msg_per_s", "msg/s", places(0)),
    Column("mb_per_s", "MB/s", places(0)),
    Column("cpu_us", "CPU us/msg", significant),
    Column("cpu_percent", "CPU %", places(0)),
    Column("peak_mib", "RSS peak", places(0)),
    Column("pss_mib", "PSS MiB", places(0)),
    Column("client_percent", "load CPU %", places(0)),
)
EXTRAS = (
    Column("published_per_s", "published/s", places(0)),
    Column("behind_messages", "most behind", places(0)),
    Column("behind_ms", "behind ms", places(0)),
    Column("kept_up", "kept up", places(2)),
    Column("p50_ms", "p50 ms", places(2)),
    Column("p99_ms", "p99 ms", places(2)),
    Column("p999_ms", "p99.9 ms", places(2)),
    Column("quiet_p99_ms", "quiet p99 ms", places(2)),
    Column("of_quiet", "p99 of quiet", places(2)),
    Column("scrape_ms", "scrape p50 ms", places(0)),
    Column("slowest_scrape_ms", "slowest scrape ms", places(0)),
    Column("scrape_cpu_ms", "CPU ms a scrape", places(0)),
    Column("page_mb", "page MB", places(1)),
    Column("deaths", "deaths", places(0)),
    Column("more_mib", "more MiB", places(0)),
    Column("answered_ms", "answered p50 ms", places(2)),
    Column("healthy_ms", "healthy ms", places(0)),
    Column("first_ms", "first message ms", places(0)),
    Column("of_plain", "of plain", places(2)),
    Column("cpu_of_plain", "CPU of plain", places(2)),
    Column("seen_of_plain", "of plain after a transaction", places(2)),
    Column("aborted_per_s", "aborted/s", places(0)),
    Column("official_per_s", "official client msg/s", places(0)),
    Column("official_p50_ms", "official client p50 ms", places(2)),
    Column("of_official", "of official client", places(2)),
    Column("all_columns_per_s", "with all columns rows/s", places(0), compared=True),
    Column("one_batch_per_s", "without source rows/s", places(0)),
    Column("one_batch_all_per_s", "with all columns without source rows/s", places(0)),
    Column("dedup_per_s", "exactly once rows/s", places(0)),
    Column("transaction_per_s", "in transactions rows/s", places(0)),
    Column("batch_ms", "micro-batch ms", places(1), compared=True),
    Column("planned_ms", "planned ms", places(1), compared=True),
    Column("read_ms", "read ms", places(1)),
    Column("source_ms", "source's share ms", places(1)),
    Column("query_percent", "CPU % of the idle query", places(1), compared=True),
    Column("query_python_percent", "of that Python's", places(1)),
    Column("of_shared", "of Shared", places(2)),
    Column("cpu_of_shared", "CPU of Shared", places(2)),
    Column("one_per_s", "on one worker/s", places(0)),
    Column("of_one", "of one worker", places(2)),
    Column("cpu_of_one", "CPU of one worker", places(2)),
    Column("idle_mib", "largest process idle MiB", places(0)),
    Column("holes_mib", "holes MiB", places(1)),
    Column("rest_per_s", "the rest/s", places(0)),
    Column("delayed_ratio", "to undelayed", places(2)),
    Column("delayed_cpu_ratio", "CPU to undelayed", places(2)),
    Column("again_mib", "RSS again MiB", places(0)),
    Column("came_again", "came again", places(0)),
    Column("topic_kib", "KiB a topic", places(1)),
    Column("idle_percent", "CPU % idle", places(1)),
    Column("reopened_per_s", "opened again/s", places(0)),
    Column("reopen_cpu_us", "CPU us to open again", places(0)),
    Column("touched_per_s", "used again/s", places(0)),
    Column("touch_cpu_us", "CPU us to use again", places(0)),
    Column("stored_share", "stored", places(2)),
    Column("beside_per_s", "beside it msg/s", places(0)),
    Column("beside_share", "beside it for", places(2)),
    Column("beginning_ms", "from the beginning ms", places(0)),
    Column("middle_ms", "from the middle ms", places(0)),
    Column("stored_gb", "stored GB", places(1)),
    Column("without_mib", "RSS without topics MiB", places(0)),
    Column("known_mib", "RSS with topics MiB", places(0)),
    Column("unloaded_bytes", "bytes an unloaded topic", places(0)),
    Column("listed_ms", "listed ms", places(1)),
    Column("seen_ms", "new one seen ms", places(1)),
    Column("rss_mib", "RSS MiB", places(0)),
    Column("uss_mib", "USS MiB", places(0)),
)
"""Only some rows have them."""
HEADINGS = {column.measure: column for column in (*COLUMNS, *EXTRAS)}


def cell(values: list[float], text: CELL) -> str:
    """The median and the range, if there is one."""
    if not values:
        return ""
    low, middle, high = text(min(values)), text(median(values)), text(max(values))
    return middle if low == high else f"{middle} ({low}-{high})"


def head() -> list[str]:
    """Of the table of all measures."""
    return ["", *(column.heading for column in COLUMNS), ""]


def lines_of(results: Results, row: str) -> list[list[str]]:
    """A line for each server, and one with the subject's ratio to each of the others."""
    lines = []
    for server in results.measures[row]:
        cells = [cell(results.values(row, server, c.measure), c.text) for c in COLUMNS]
        lines.append([NAMES[server].title, *cells, extras(results, row, server)])
    for other in NAMES:
        if other == results.subject:
            continue
        ratios = [results.ratio(row, column.measure, other) for column in COLUMNS[:-1]]
        also = compared_extras(results, row, other)
        if also or any(r is not None for r in ratios):
            cells = ["" if r is None else f"{r:.2f}x" for r in ratios]
            lines.append([f"  / {NAMES[other].title}", *cells, "", also])
    return lines


def compared_extras(results: Results, row: str, other: str) -> str:
    """Ratios of the measures that have no column of their own, where they are compared."""
    ratios = ((c, results.ratio(row, c.measure, other)) for c in EXTRAS if c.compared)
    return "  ".join(f"{c.heading} {ratio:.2f}x" for c, ratio in ratios if ratio is not None)


def extras(results: Results, row: str, server: str) -> str:
    """The measures that have no column of their own."""
    columns = [c for c in EXTRAS if results.values(row, server, c.measure)]
    return "  ".join(
        f"{c.heading} {cell(results.values(row, server, c.measure), c.text)}" for c in columns
    )


def words(verdict: Verdict) -> list[str]:
    """A mark, what was reached, and whether that is enough."""
    mark, column = verdict.mark, HEADINGS[verdict.mark.measure]
    relation = "at most" if mark.at_most else "at least"
    of = f" of {NAMES[mark.of].title}" if mark.of else ""
    wanted = f"{relation} {mark.bound:g}{'x' if mark.of else ''}{of}"
    if verdict.value is None:
        return [column.heading, wanted, "", "not measured"]
    reached = f"{verdict.value:.2f}x" if mark.of else column.text(verdict.value)
    return [column.heading, wanted, reached, "pass" if verdict.passed else "MISS"]


def aligned(lines: list[list[str]], left: set[int]) -> str:
    """Columns under each other; those in `left` begin at the same place."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if at in left else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def table(results: Results) -> str:
    """Every measure of every row and server."""
    lines = [head()]
    blank = [""] * len(lines[0])
    for key, row in results.rows.items():
        lines += [blank, [row.title, *blank[1:]], *lines_of(results, key)]
    return aligned(lines, {0, len(blank) - 1})


def promises(results: Results) -> str:
    """What each server has done when a publisher gets its receipt."""
    return "\n".join(NAMES[server].heading for server in results.servers)


def marks(results: Results) -> str:
    """Every mark, and whether it is reached."""
    lines = [
        [row.title, *words(verdict)]
        for key, row in results.rows.items()
        for verdict in results.verdicts(key)
    ]
    return aligned([["mark", "", "wanted", "reached", ""], *lines], {0, 1, 2, 4})
