"""`python -m bench`: measure, print a table, write JSON."""

import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import click

from bench.probe import probe_sync
from bench.rows import FULL, QUICK, ROWS, Scale
from bench.servers import COMMANDS, Server
from bench.table import Results, table, verdict

RESULTS_DIR = Path(__file__).parent / "results"
PROBES = 300


def run(rows: list[str], scale: Scale, rounds: int, directory: Path) -> Results:
    """Every row on every server, in turn, `rounds` times; a fresh server for each."""
    sync = probe_sync(directory, PROBES)
    machine: dict[str, str | int | float] = {
        "magnetar": version("magnetar"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count() or 0,
        "fdatasync_p50_ms": sync["p50_ms"],
        "fdatasync_p99_ms": sync["p99_ms"],
    }
    results = Results(machine, rounds, asdict(scale))
    for row in rows:
        title, measure = ROWS[row]
        for number in range(rounds):
            for name in COMMANDS:
                click.echo(f"{title}: round {number + 1}, {name}", err=True)
                with Server(name, directory / f"{row}-{number}-{name}") as server:
                    results.add(row, name, measure(server, scale))
    return results


@click.command()
@click.option("--rows", default=",".join(ROWS), show_default=True, help="Which, with commas.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--quick", is_flag=True, help="A sixth of the messages, one round if not told.")
@click.option("--json", "json_path", type=click.Path(path_type=Path, dir_okay=False),
              help="Where to write the results; default: bench/results/<time>.json.")  # fmt: skip
@click.option("--dir", "parent", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Keeps the servers' data meanwhile; default: bench/results.")  # fmt: skip
@click.pass_context
def main(
    context: click.Context,
    rows: str,
    rounds: int,
    quick: bool,
    json_path: Path | None,
    parent: Path | None,
) -> None:
    """Measure Magnetar beside the floor, every answer behind an fsync."""
    chosen = rows.split(",")
    unknown = sorted(set(chosen) - set(ROWS))
    if unknown:
        raise click.BadParameter(f"no such row: {', '.join(unknown)}", param_hint="--rows")
    if quick and context.get_parameter_source("rounds") is click.core.ParameterSource.DEFAULT:
        rounds = 1
    RESULTS_DIR.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="data-", dir=parent or RESULTS_DIR) as directory:
        results = run(chosen, QUICK if quick else FULL, rounds, Path(directory))
    path = json_path or RESULTS_DIR / time.strftime("%Y-%m-%dT%H-%M-%S.json")
    path.write_text(results.as_json())
    machine = results.machine
    click.echo(
        f"Magnetar {machine['magnetar']}, Python {machine['python']}, {machine['cpus']} CPUs; "
        f"fdatasync of 16 KiB: p50 {machine['fdatasync_p50_ms']:.2f} ms, "
        f"p99 {machine['fdatasync_p99_ms']:.2f} ms; {rounds} rounds: median (lowest-highest)\n"
    )
    click.echo(table(results))
    click.echo(f"\n{verdict(results)}\nresults: {path}")


if __name__ == "__main__":
    sys.exit(main())
