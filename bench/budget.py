"""`python -m bench.budget ROW`: the server's CPU time of one message by function, from a profile.

Needs py-spy, which looks 200 times a second which function of the server holds the interpreter's
lock while the row is measured.  The CPU time is shared out in proportion; so what a thread does
without the lock (writing, syncing, checksums of large pieces) is spread over all.
"""

import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import click

from bench.lineup import SERVERS
from bench.rows import ROWS
from bench.scenarios import Trial
from bench.servers import MagnetarBefore
from bench.usage import Measures, Meter

PY_SPY = str(Path(sys.executable).with_name("py-spy"))
SAMPLES_PER_SECOND = 200
SCALE = 5.0
"""A row is too short for a profile."""
SHOWN = 24
TOPIC = "persistent://public/default/budget"
COMMANDS = r"proto/(commands|sends|deliveries|acks)\.py"
STEPS = (
    ("receive, cut into frames", r"proto/frames\.py|data_received .*listener\.py"),
    ("read what is asked", rf"(decode|_options).*{COMMANDS}|proto/wire\.py"),
    ("encode answers and deliveries, send", rf"{COMMANDS}|server/listener\.py|entries\.py"),
    ("choose who gets what", r"broker/dispatch/|/consumer\.py|/subscription\.py|/cursor\w*\.py"),
    ("check, gather runs", r"magnetar_broker/(session|\w+\.py)"),
    ("write to files and sync", r"/(journal|disk|rounds|write_behind|checkpoint)\.py"),
    ("encode, index, keep", r"magnetar_storage/"),
)
"""By the first pattern that is found in `function (file)`."""
OTHERS = "hand-overs between threads, the loop"
FRAME = re.compile(r"^(?P<function>.+) \((?P<file>.+):\d+\)$")


class ProfilingMeter(Meter):
    """Has py-spy look on from its making until `stop`."""

    def __init__(self, pid: int, output: Path) -> None:
        command = [PY_SPY, "record", "--format", "raw", "--output", str(output)]
        rate = ["--rate", str(SAMPLES_PER_SECOND), "--duration", "unlimited"]
        self._spy = subprocess.Popen(
            [*command, *rate, "--gil", "--threads", "--pid", str(pid)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        super().__init__(pid)

    def stop(self, messages: int, size: int) -> Measures:
        measures = super().stop(messages, size)
        self._spy.send_signal(signal.SIGINT)
        _, errors = self._spy.communicate()
        if self._spy.returncode != 0:
            raise RuntimeError(f"py-spy: {errors}")
        return measures


def self_times(profile: str) -> tuple[Counter[str], Counter[str]]:
    """Samples by function, and by thread; a line is `thread;frame;...;frame count`."""
    functions: Counter[str] = Counter()
    threads: Counter[str] = Counter()
    for line in profile.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *_, frame = stack.split(";")
        found = FRAME.match(frame)
        name = f"{found['function']} ({found['file']})" if found else frame
        functions[name] += int(count)
        threads[re.sub(r"^thread \(\w+\): ", "", thread)] += int(count)
    return functions, threads


def by_step(functions: Counter[str]) -> Counter[str]:
    """The samples of `functions` summed by step."""
    steps: Counter[str] = Counter()
    for name, count in functions.items():
        step = next((step for step, pattern in STEPS if re.search(pattern, name)), OTHERS)
        steps[step] += count
    return steps


def shares(counted: Counter[str], cpu_us: float, shown: int) -> str:
    """A Markdown table: the most expensive first, then what is left."""
    total = counted.total()
    lines = counted.most_common(shown)
    rest = total - sum(count for _, count in lines)
    return "".join(
        f"| {name} | {cpu_us * count / total:.3g} | {100 * count / total:.0f} % |\n"
        for name, count in [*lines, ("everything else", rest)]
        if count
    )


@click.command()
@click.argument("row", type=click.Choice([key for key, row in ROWS.items() if not row.fresh]))
@click.option("--before", type=click.Path(path_type=Path, exists=True),
              help="Profile the Magnetar of this other working tree.")  # fmt: skip
@click.option(
    "--seconds",
    default=10.0,
    show_default=True,
    help="Maximum length of a measurement, in seconds.",
)
def main(row: str, before: Path | None, seconds: float) -> None:
    """Measure a row on Magnetar and print its CPU time by function."""
    if before is not None:
        MagnetarBefore.tree = before.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary) / "profile"
        server_type = SERVERS["magnetar" if before is None else "before"]
        with server_type(Path(temporary) / "data") as server:
            meter = partial(ProfilingMeter, output=output)
            measures = ROWS[row].measure(Trial(server, TOPIC, SCALE, seconds, meter))
        functions, threads = self_times(output.read_text())
    cpu_us = measures["cpu_us"]
    click.echo(
        f"{ROWS[row].title}: {measures['msg_per_s']:,.0f}/s, {cpu_us:.3g} us of CPU each, "
        f"{measures['system_cpu_us']:.3g} of them in the system; {functions.total()} samples\n"
    )
    for heading, counted in (
        ("thread", threads),
        ("step", by_step(functions)),
        ("function", functions),
    ):
        click.echo(f"| {heading} | us/msg | |\n|---|--:|--:|\n{shares(counted, cpu_us, SHOWN)}")


if __name__ == "__main__":
    sys.exit(main())
