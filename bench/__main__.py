"""`python -m bench`: measure, print a table, write JSON."""

import os
import platform
import signal
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import click

from bench.contest import Contest
from bench.probe import probe_sync
from bench.profile import PY_SPY
from bench.results import Results
from bench.rows import ROWS, Row
from bench.servers import SERVERS, MagnetarBefore, compile_copy

RESULTS_DIR = Path(__file__).parent / "results"
PROBES = 300
QUIET_LOAD = 1.0


def machine(directory: Path) -> dict[str, str | int | float]:
    """Return the properties of the machine on which the figures depend."""
    sync = probe_sync(directory, PROBES)
    return {
        "magnetar": version("magnetar"),
        "python": platform.python_version(),
        "system": platform.system(),
        "cpus": os.cpu_count() or 0,
        "load_before": os.getloadavg()[0],
        "fdatasync_p50_ms": sync["p50_ms"],
        "fdatasync_p99_ms": sync["p99_ms"],
    }


def chosen_rows(context: click.Context, option: click.Parameter, rows: str) -> dict[str, Row]:
    """Return the rows that are named, or begin with a name; without names, all but `asked` ones."""
    if not rows:
        return {key: row for key, row in ROWS.items() if not row.asked}
    found: dict[str, Row] = {}
    for name in rows.split(","):
        some = {key: row for key, row in ROWS.items() if f"{key}-".startswith(f"{name}-")}
        if not some:
            raise click.BadParameter(f"no such row: {name}; there are {', '.join(ROWS)}")
        found |= some
    return found


def chosen_servers(context: click.Context, option: click.Parameter, servers: str) -> set[str]:
    """Return the named servers."""
    names = set(servers.split(","))
    if unknown := names - set(SERVERS):
        raise click.BadParameter(
            f"no such server: {', '.join(unknown)}; there are {', '.join(SERVERS)}"
        )
    return names


def warn_of_load(load: float) -> None:
    """Warn that the machine was busy before the run, so that its figures are worthless."""
    if load >= QUIET_LOAD:
        click.echo(
            f"WARNING: the load average before the run was {load:.1f}: it does not count", err=True
        )


@click.command()
@click.option("--rows", callback=chosen_rows, default="",
              help="Rows, separated by commas; a prefix selects all it begins.")  # fmt: skip
@click.option("--servers", "names", callback=chosen_servers, default="magnetar,floor",
              show_default=True, help=f"Separated by commas: {', '.join(SERVERS)}.")  # fmt: skip
@click.option("--before", type=click.Path(path_type=Path, exists=True),
              help="Also measure the Magnetar of this other working tree.")  # fmt: skip
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--scale", default=1.0, show_default=True,
              help="How much of each row's full load is used; may be more than 1.")  # fmt: skip
@click.option("--seconds", default=10.0, show_default=True,
              help="Maximum length of a measurement, in seconds.")  # fmt: skip
@click.option("--profile", is_flag=True,
              help="Also write a flame graph of each measurement; needs py-spy.")  # fmt: skip
@click.option("--dir", "parent", default=RESULTS_DIR, show_default=True,
              type=click.Path(path_type=Path, file_okay=False),
              help="Directory for results, and for data, which is removed.")  # fmt: skip
@click.pass_context
def main(
    context: click.Context,
    rows: dict[str, Row],
    names: set[str],
    before: Path | None,
    rounds: int,
    scale: float,
    seconds: float,
    profile: bool,
    parent: Path,
) -> None:
    """Measure Magnetar beside other servers, on loopback."""
    if before is not None:
        MagnetarBefore.tree = before.resolve()
        names.add("before")
    if profile and not PY_SPY.exists():
        raise click.UsageError(
            f"there is no {PY_SPY}: install py-spy, or measure without --profile"
        )
    parent.mkdir(exist_ok=True)
    path = parent / time.strftime("%Y-%m-%dT%H-%M-%S.json")
    profiles = path.with_suffix("") if profile else None
    if profiles is not None:
        profiles.mkdir()
    with tempfile.TemporaryDirectory(prefix="data-", dir=parent) as temporary:
        directory = Path(temporary)
        results = Results(machine(directory), rounds, scale)
        warn_of_load(float(results.machine["load_before"]))
        if "compiled" in names:
            compile_copy(directory / "compiled")
        ordered = [name for name in SERVERS if name in names]
        with Contest(ordered, directory, scale, seconds, profiles) as contest:
            for measured in contest.run(rows, rounds, lambda text: click.echo(text, err=True)):
                results.add(*measured)
                results.machine["load_after"] = os.getloadavg()[0]
                path.write_text(results.as_json())
    click.echo(f"{results.summary()}\n\n{results.table()}\n\nresults: {path}")
    warn_of_load(float(results.machine["load_before"]))
    for failure in results.failures:
        click.echo(f"FAILED: {': '.join(failure)}")
    context.exit(1 if results.failures else 0)


if __name__ == "__main__":
    # Leave by an exception, so that the servers are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    sys.exit(main())
