"""Kill brokers on shared stores, and the stores, and compare what was confirmed with what is kept.

`make torture-takeover CYCLES=n [SEED=s] [METADATA=etcd|postgres]`.  Two brokers have the same
stores: one serves, and the other waits.  Official clients publish to some topics and consume them.
In each cycle processes are killed, stopped or suspended, and a topic is read from its beginning
then.  What ends by itself is started again, as a service manager does.
"""

import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import click

from crash.tiered_torture import Load
from official import connect
from remote_data import ENGINES, LEASE_SECONDS, Stores, await_serving, serves, url_of, why_not
from running_broker import RunningBroker
from tiered_broker import read_all

TOPICS_UNDER_LOAD = 3
LONGEST_LIFE_SECONDS = 3.0
LONGEST_OUTAGE_SECONDS = 2 * LEASE_SECONDS
"""The outage of a store, or of a broker that is suspended: the lease may end in it, or not."""
FAULTS = (
    "kill", "stop", "suspend", "kill both", "objects killed", "objects suspended",
    "metadata killed", "metadata suspended", "kill, and objects killed",
    "kill, and metadata killed",
)  # fmt: skip
SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": "500",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "1",
    "defaultRetentionTimeInMinutes": "-1",
    "defaultRetentionSizeInMB": "-1",
    "managedLedgerCacheSizeMB": "1",
    "magnetarWalUnsettledSizeMB": "16",
}


class Machine:
    """A broker that is started again whenever it has ended."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.exits: Counter[int] = Counter()
        """How often it has ended by itself, by exit code."""
        self._ending = Event()
        self._pid = 0
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            self.broker.begin()
            self._pid = self.broker.pid
            if self._ending.is_set():
                self.signal(signal.SIGTERM)  # `end` has not seen this one
            code = self.broker.wait()
            if not self._ending.is_set():
                self.exits[code] += 1

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, unless it has just ended."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def end(self) -> int:
        """Stop it in order, and do not start it again; return how often it has met a defect."""
        self._ending.set()
        self.signal(signal.SIGTERM)
        self._thread.join()
        return self.broker.log.count("Traceback")


@dataclass
class Summary:
    """The outcome of a run."""

    cycles: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    exits: Counter[int] = field(default_factory=Counter)
    confirmed: int = 0
    compared: int = 0
    again: list[float] = field(default_factory=list)
    """The seconds from each fault until a broker serves."""
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in self.faults.most_common())
        exits = ", ".join(f"{count} with {code}" for code, count in self.exits.most_common())
        again = sorted(self.again)
        return "\n".join([
            f"{self.cycles} cycles: {faults}",
            f"brokers ended {exits}; one served again after {again[len(again) // 2]:.1f} s"
            f" (median), {again[-1]:.1f} s (longest)",
            f"{self.confirmed:,} messages confirmed, {self.compared:,} compared",
            *self.problems,
        ])  # fmt: skip


class Torture:
    """One run over two brokers and their stores; `go` does it all."""

    def __init__(
        self,
        directory: Path,
        stores: Stores,
        seed: int,
        cycles: int,
        output: Callable[[str], None] = print,
    ) -> None:
        self.summary = Summary()
        self._stores = stores
        self._cycles = cycles
        self._print = output
        self._random = random.Random(seed)
        settings = stores.settings() | SETTINGS
        self._brokers = [RunningBroker(directory / name, **settings) for name in ("one", "two")]
        self._url = url_of(*self._brokers)

    def go(self) -> Summary:
        """Do the cycles, and compare everything in the end."""
        summary = self.summary
        machines = [Machine(broker) for broker in self._brokers]
        try:
            await_serving(*self._brokers)
            self._loads = [
                Load(self._url, f"persistent://public/default/load-{number}")
                for number in range(TOPICS_UNDER_LOAD)
            ]
            while summary.cycles < self._cycles and not self._problems():
                self._cycle(machines)
            if not self._problems():
                self._end()
        finally:
            defects = sum(machine.end() for machine in machines)
        for machine in machines:
            summary.exits += machine.exits
        summary.confirmed = sum(len(load.confirmed) for load in self._loads)
        summary.problems += self._problems()
        if defects:
            summary.problems.append(f"{defects} defects in {self._brokers[0].log_path.parent}")
        return summary

    def _problems(self) -> list[str]:
        return [problem for load in self._loads for problem in load.problems]

    def _cycle(self, machines: list[Machine]) -> None:
        self.summary.cycles += 1
        time.sleep(self._random.uniform(0, LONGEST_LIFE_SECONDS))
        fault = self._random.choice(FAULTS)
        began = time.monotonic()
        self._strike(fault, machines)
        self.summary.faults[fault] += 1
        await_serving(*self._brokers)
        self.summary.again.append(time.monotonic() - began)
        load = self._random.choice(self._loads)
        confirmed = list(load.confirmed)
        stored = self._stored(load)
        load.compare(confirmed, stored)
        self.summary.compared += len(stored)
        self._print(
            f"{self.summary.cycles:>4}  {fault}, {len(stored):,} messages of {load.topic} compared"
            f" after {time.monotonic() - began:.1f} s"
        )

    def _strike(self, fault: str, machines: list[Machine]) -> None:
        """Do what the fault says, and undo all but the ends of brokers."""
        serving = next((one for one in machines if serves(one.broker)), machines[0])
        outage = self._random.uniform(0, LONGEST_OUTAGE_SECONDS)
        store = self._stores.objects if "objects" in fault else self._stores.metadata
        if "killed" in fault:
            store.kill()
        elif fault.endswith("suspended"):
            store.suspend()
        if fault == "stop":
            serving.signal(signal.SIGTERM)
        elif fault == "suspend":
            serving.signal(signal.SIGSTOP)
        elif fault.startswith("kill"):
            for one in machines if fault == "kill both" else [serving]:
                one.signal(signal.SIGKILL)
        if fault not in ("kill", "stop", "kill both"):
            time.sleep(outage)
        store.go_on()
        self._stores.start()
        if fault == "suspend":
            serving.signal(signal.SIGCONT)

    def _stored(self, load: Load) -> list[int]:
        client = connect(self._url)
        try:
            return [int(text) for text in read_all(client, load.topic)]
        finally:
            client.close()

    def _end(self) -> None:
        for load in self._loads:
            load.finish()
        for load in self._loads:
            stored = self._stored(load)
            load.compare(load.confirmed, stored)
            self.summary.compared += len(stored)


@click.command()
@click.option("--cycles", default=50, show_default=True, help="How many faults.")
@click.option("--seed", type=int, help="Of the moments of the faults; a new one each time.")
@click.option("--metadata", type=click.Choice(ENGINES), default="etcd", help="The metadata store.")
def main(cycles: int, seed: int | None, metadata: str) -> None:
    """Kill brokers and their stores again and again, and print the outcome."""
    if why := why_not(metadata):
        raise click.ClickException(why)
    seed = random.randrange(1 << 32) if seed is None else seed
    directory = Path(tempfile.mkdtemp(prefix="magnetar-takeover-torture-"))
    click.echo(f"seed {seed}, data in {directory}")
    stores = Stores(directory, metadata)
    good = False
    try:
        stores.start()
        summary = Torture(directory, stores, seed, cycles, click.echo).go()
        good = not summary.problems
        click.echo(f"\n{summary}")
    finally:
        stores.end()
        if good:
            shutil.rmtree(directory)
        else:
            click.echo(f"everything is left as it is in {directory}", err=True)
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
