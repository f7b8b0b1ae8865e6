"""`python -m bench`: measure, print tables, write JSON."""

import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import click

from bench.contest import Contest
from bench.lineup import NAMES, PEERS, SERVERS
from bench.outcome import Results
from bench.probe import probe_sync
from bench.rows import ROWS, Row, crash_row
from bench.scenarios import BACKLOG_GB
from bench.servers import MagnetarBefore, compile_copy
from bench.table import marks, promises, table

RESULTS_DIR = Path(__file__).parent / "results"
PROBES = 300
QUICK_SCALE = 0.1
QUIET_LOAD = 1.0


def machine(directory: Path) -> dict[str, str | int | float]:
    """What the figures depend on."""
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


def chosen(rows: str, gigabytes: int) -> dict[str, Row]:
    """The rows that are named, or begin with what is named."""
    found: dict[str, Row] = {}
    for name in filter(None, rows.split(",")):
        some = {key: row for key, row in ROWS.items() if f"{key}-".startswith(f"{name}-")}
        if not some:
            raise click.BadParameter(f"no such row: {name}", param_hint="--rows")
        found |= some
    return found | ({"crash": crash_row(gigabytes)} if gigabytes else {})


def chosen_peers(peers: str) -> set[str]:
    """The servers of the peers that are named."""
    names = [name for name in peers.split(",") if name]
    if unknown := set(names) - set(PEERS):
        raise click.BadParameter(f"no such peer: {', '.join(unknown)}", param_hint="--peer")
    return {server for name in names for server in PEERS[name]}


def installed(names: list[str]) -> list[str]:
    """Those that can be run here, after getting what is missing; tells why others cannot."""
    found = []
    for name in names:
        try:
            SERVERS[name].install()
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            click.echo(f"SKIPPED: {NAMES[name].title}: {error}", err=True)
        else:
            found.append(name)
    return found


def warn_of_load(results: Results) -> None:
    """A machine that was busy before the run makes its figures worthless."""
    load = results.machine["load_before"]
    if float(load) >= QUIET_LOAD:
        click.echo(
            f"WARNING: the load average before the run was {load:.1f}: it does not count", err=True
        )


@click.command()
@click.option("--rows", default=",".join(name for name, row in ROWS.items() if not row.asked),
              show_default=True,
              help="Rows, separated by commas; a prefix selects all it begins.")  # fmt: skip
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option(
    "--quick", is_flag=True, help="A tenth of the messages; one round unless --rounds is given."
)
@click.option(
    "--seconds",
    default=10.0,
    show_default=True,
    help="Maximum length of a measurement, in seconds.",
)
@click.option(
    "--peer",
    "peers",
    default="",
    help=f"Also measure these peers, separated by commas: {', '.join(PEERS)}.",
)
@click.option("--servers", default="magnetar,floor", show_default=True,
              help="Servers to measure, separated by commas.")  # fmt: skip
@click.option("--before", type=click.Path(path_type=Path, exists=True),
              help="Also measure the Magnetar of this other working tree.")  # fmt: skip
@click.option(
    "--compiled",
    is_flag=True,
    help="Also measure a compiled copy of this working tree, the form of wheels.",
)
@click.option(
    "--gigabytes",
    default=0,
    help="Also measure the start after kill -9 with this much data, in GB.",
)
@click.option("--backlog", "backlog_gb", default=BACKLOG_GB, show_default=True,
              help="GB of data in latency-backlog and first-delivery-cold.")  # fmt: skip
@click.option("--json", "json_path", type=click.Path(path_type=Path, dir_okay=False),
              help="File to write the results to; default: bench/results/<time>.json.")  # fmt: skip
@click.option("--dir", "parent", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Directory for the servers' data; default: bench/results.")  # fmt: skip
@click.pass_context
def main(
    context: click.Context,
    rows: str,
    rounds: int,
    quick: bool,
    seconds: float,
    peers: str,
    servers: str,
    before: Path | None,
    compiled: bool,
    gigabytes: int,
    backlog_gb: float,
    json_path: Path | None,
    parent: Path | None,
) -> None:
    """Measure Magnetar beside the floor, with an fsync before every receipt."""
    selected = chosen(rows, gigabytes)
    if quick and context.get_parameter_source("rounds") is click.core.ParameterSource.DEFAULT:
        rounds = 1
    if before is not None:
        MagnetarBefore.tree = before.resolve()
    named = {*servers.split(","), *chosen_peers(peers)}
    named |= {name for name, asked in (("before", before), ("compiled", compiled)) if asked}
    if named - set(SERVERS):
        raise click.BadParameter("no such server", param_hint="--servers")
    names = installed([name for name in SERVERS if name in named])
    RESULTS_DIR.mkdir(exist_ok=True)
    path = json_path or RESULTS_DIR / time.strftime("%Y-%m-%dT%H-%M-%S.json")
    scale = QUICK_SCALE if quick else 1.0
    with tempfile.TemporaryDirectory(prefix="data-", dir=parent or RESULTS_DIR) as temporary:
        directory = Path(temporary)
        results = Results(machine(directory), rounds, scale, gigabytes)
        warn_of_load(results)
        if "compiled" in named:
            compile_copy(directory / "compiled")
        with Contest(names, directory, scale, seconds, backlog_gb) as contest:
            for measured in contest.run(selected, rounds, lambda text: click.echo(text, err=True)):
                results.add(*measured)
                results.machine["load_after"] = os.getloadavg()[0]
                path.write_text(results.as_json())
    known = results.machine
    click.echo(
        f"Magnetar {known['magnetar']}, Python {known['python']}, {known['cpus']} CPUs; "
        f"fdatasync of 16 KiB: p50 {known['fdatasync_p50_ms']:.2f} ms, "
        f"p99 {known['fdatasync_p99_ms']:.2f} ms; load average {known['load_before']:.1f} before, "
        f"{known['load_after']:.1f} behind; {rounds} rounds: median (lowest-highest)\n"
    )
    warn_of_load(results)
    click.echo(f"{promises(results)}\n\n{table(results)}\n\n{marks(results)}\n\nresults: {path}")
    for failure in results.failures:
        click.echo(f"FAILED: {': '.join(failure)}")
    context.exit(1 if results.failures else 0)


if __name__ == "__main__":
    # Leave by an exception, so that the servers are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    sys.exit(main())
