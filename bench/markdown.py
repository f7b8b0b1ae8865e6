"""`python -m bench.markdown RESULTS.json`: the tables of docs/performance.md."""

import sys
from pathlib import Path

import click

from bench.lineup import NAMES
from bench.outcome import Results
from bench.table import EXTRAS, HEADINGS, words

BEGIN, END = "<!-- bench: begin -->\n", "<!-- bench: end -->\n"
SHORT = ("msg_per_s", "cpu_us", "peak_mib")
"""The measures of a load that are shown."""


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def table_of(head: list[str], rows: list[list[str]]) -> str:
    """Headings and cells; all columns but the first are right-aligned."""
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "".join(map(line, [head, rule, *rows]))


def cell(results: Results, row: str, server: str) -> str:
    """The medians that matter, in one cell."""
    named = [HEADINGS[measure] for measure in SHORT]
    columns = [
        column
        for column in [*named, *EXTRAS]
        if column.measure != "uss_mib" and results.values(row, server, column.measure)
    ]
    medians = [(c, results.value(row, server, c.measure) or 0.0) for c in columns]
    return "<br>".join(f"{column.text(value)} {column.heading}" for column, value in medians)


def report(results: Results) -> str:
    """What was measured, where, and which marks were reached."""
    known, servers = results.machine, results.servers
    others = [server for server in servers if server != results.subject]
    rows = []
    for key, row in results.rows.items():
        ratios = [results.ratio(key, "msg_per_s", other) for other in others]
        cells = [cell(results, key, server) for server in servers]
        rows.append([row.title, *cells, *("" if r is None else f"{r:.2f}" for r in ratios)])
    head = ["", *(NAMES[s].heading for s in servers), *(f"rate / {NAMES[o].title}" for o in others)]
    verdicts = [
        [row.title, *words(verdict)]
        for key, row in results.rows.items()
        for verdict in results.verdicts(key)
    ]
    return (
        f"Magnetar {known['magnetar']}, Python {known['python']}, {known['cpus']} CPUs, "
        f"{known['system']}; an fdatasync of 16 KiB takes {known['fdatasync_p50_ms']:.2f} ms "
        f"(p99 {known['fdatasync_p99_ms']:.2f} ms). Medians of {results.rounds} round(s). "
        f"The machine's load was {known['load_before']:.1f} before and "
        f"{known['load_after']:.1f} behind the run.\n\n"
        + table_of(head, rows)
        + "\n"
        + table_of(["mark", "measure", "wanted", "reached", ""], verdicts)
    )


def replaced(text: str, generated: str) -> str:
    """The text with new content between its markers; ValueError if they are missing."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{generated}\n{END}{after}"


@click.command()
@click.argument("results", type=click.Path(path_type=Path, exists=True))
@click.option("--into", type=click.Path(path_type=Path, exists=True),
              help="Document whose tables to replace, between its markers.")  # fmt: skip
def main(results: Path, into: Path | None) -> None:
    """Print the tables of a run as Markdown, or put them into a document."""
    generated = report(Results.load(results))
    if into is None:
        click.echo(generated)
    else:
        into.write_text(replaced(into.read_text(), generated))


if __name__ == "__main__":
    sys.exit(main())
