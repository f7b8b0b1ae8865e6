"""Kill the broker while names, policies, schemas and messages are changed at random.

`make torture-admin CYCLES=n [SEED=s] [BROKER_WORKERS=n]`.  Each of some namespaces has a client
that does all that can be done, one thing after the other, beside the others; with several workers
it also moves bundles of its topics between them.  The broker, or one of its processes
(`victims.py`), is killed at random, or at once when something was answered; then everything is
checked against the books.
"""

import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_plus

import click

from admin_http import Admin
from crash.admin_desk import Wrong
from crash.admin_load import AdminLoad
from crash.lives import WorkersLives
from crash.victims import Trouble, Victim, WholeBroker, some_victim
from magnetar_broker.verify import check
from magnetar_storage.metadata.database import FILE, Database
from running_broker import RunningBroker

SETTINGS = {
    "allowAutoTopicCreation": "false",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "forceDeleteNamespaceAllowed": "true",
    "loadBalancerSheddingEnabled": "false",
    "magnetarAllowAutoNamespaceCreation": "false",
    "magnetarCheckpointSizeMB": "1",
    "managedLedgerMaxEntriesPerLedger": "7",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "1",
    "schemaCompatibilityStrategy": "ALWAYS_COMPATIBLE",
}
TENANT = "torture"
LONGEST_LIFE_SECONDS = 1.2
LONGEST_WAIT_SECONDS = 60.0
"""For so many answers: they come, or something hangs."""
MOST_ANSWERS = 150
"""Until the kill that follows at once on one."""
KILLED_AT_ANSWER = 0.7
KILLED_AT_START = 0.2
LONGEST_START_SECONDS = 0.8
POLL_SECONDS = 0.05
CYCLES_OF_AN_ERA = 5
"""Between two looks at the files."""
KEYS_OF_TOPICS = ("/topics/", "/partitions/", "/policies/", "/schemas/", "/schema-versions/")


@dataclass
class Summary:
    """What came of a run."""

    cycles: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    torn: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kills.most_common())
        done = ", ".join(f"{count} {kind}" for kind, count in self.done.most_common())
        return "\n".join([
            f"{self.cycles} cycles, {self.kills.total()} kills: {kinds}",
            f"{self.done.total():,} operations: {done}",
            f"{self.torn} were not answered before the kill, and were done or not, but wholly",
            *(self.problems or ["no problems"]),
        ])  # fmt: skip


class Trap:
    """Kills once, when so many answers have come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = 0
        self._victim: Victim
        self.sprung = threading.Event()

    def set(self, victim: Victim, answers: int | None) -> None:
        """None: only `spring` does it."""
        with self._lock:
            self._victim, self._left = victim, -1 if answers is None else answers
            self.sprung.clear()

    def answered(self) -> None:
        """Something was answered."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._kill()

    def spring(self) -> None:
        """Now, whatever was answered."""
        with self._lock:
            if not self.sprung.is_set():
                self._kill()

    def _kill(self) -> None:
        self._left = -1
        self.sprung.set()
        self._victim.strike()


class AdminTorture:
    """One run over one broker; `go` does it all."""

    def __init__(
        self,
        broker: RunningBroker,
        seed: int,
        cycles: int,
        workers: int = 1,
        loads: int = 3,
        output: Callable[[str], None] = print,
    ) -> None:
        self.summary = Summary()
        self._broker = broker
        self._cycles = cycles
        self._print = output
        self._dice = random.Random(seed)
        self._trap = Trap()
        self._workers = workers
        self._lives = WorkersLives(workers)
        self._loads = [
            AdminLoad(broker, f"{TENANT}/space{number}", random.Random(self._dice.random()),
                      self._trap.answered, self._trap.sprung.is_set)
            for number in range(loads)
        ]  # fmt: skip

    def go(self) -> Summary:
        """Kill the broker so many times."""
        tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert Admin(self._broker).put(f"tenants/{TENANT}", tenant).status == 204
        with ThreadPoolExecutor(len(self._loads)) as pool:
            while self.summary.cycles < self._cycles and not self.summary.problems:
                self._cycle(pool)
                last = self.summary.cycles == self._cycles
                if last or self.summary.cycles % CYCLES_OF_AN_ERA == 0:
                    self._look_at_files()
        for load in self._loads:
            self.summary.done.update(load.done)
            self.summary.torn += load.torn
            if any(problem.startswith(load.namespace) for problem in self.summary.problems):
                self.summary.problems += [f"  {line}" for line in load.story]
        if self._workers > 1 and not self.summary.done["move"]:
            self.summary.problems.append("no bundle was moved")
        for trouble in ("Traceback", "no topic lists segments"):
            if trouble in self._broker.log:
                self.summary.problems.append(f"{trouble!r} is in {self._broker.log_path}")
        return self.summary

    # A cycle --------------------------------------------------------------------------------

    def _cycle(self, pool: ThreadPoolExecutor) -> None:
        answers, seconds = None, self._dice.uniform(0, LONGEST_LIFE_SECONDS)
        if self._dice.random() < KILLED_AT_ANSWER:
            answers, seconds = self._dice.randint(1, MOST_ANSWERS), LONGEST_WAIT_SECONDS
        victim = some_victim(self._broker, self._lives, self._dice)
        self._trap.set(victim, answers)
        lives = [pool.submit(self._live, load) for load in self._loads]
        by_answer = self._trap.sprung.wait(seconds)
        self._trap.spring()
        kinds = ["at an answer" if by_answer else "at random"]
        if self._lives.workers > 1:
            kinds = [f"{victim} of {self._lives.workers} {kinds[0]}"]
        if victim.starts_anew:
            self._change_workers()
        while isinstance(victim, WholeBroker) and self._dice.random() < KILLED_AT_START:
            kinds.append("while starting")
            self._broker.kill()
            self._broker.begin()
            time.sleep(self._dice.uniform(0, LONGEST_START_SECONDS))
        began = time.monotonic()
        try:
            victim.recover()
        except Trouble as trouble:
            self.summary.problems.append(str(trouble))
            self._broker.kill()
        ready = time.monotonic() - began
        self.summary.problems += [problem for life in lives for problem in life.result()]
        if not self.summary.problems:
            for found in pool.map(AdminLoad.look, self._loads):
                self.summary.problems += found
        self.summary.cycles += 1
        self.summary.kills.update(kinds)
        self._print(f"{self.summary.cycles:>4}  ready after {ready:.2f} s, looked at in "
                  f"{time.monotonic() - began - ready:.2f} s  killed {', '.join(kinds)}"
                  f"{'  FAILED' if self.summary.problems else ''}")  # fmt: skip

    def _live(self, load: AdminLoad) -> list[str]:
        try:
            load.live()
        except Wrong as wrong:
            self._trap.spring()
            return [f"{load.namespace}: {wrong}"]
        if self._trap.sprung.is_set():
            return []
        return [f"{load.namespace}: the connection was lost, and the broker was not killed"]

    def _change_workers(self) -> None:
        """Of the next start."""
        self._lives.workers = self._dice.randint(1, self._workers)
        self._broker.settings["magnetarWorkers"] = str(self._lives.workers)

    # Files ----------------------------------------------------------------------------------

    def _look_at_files(self) -> None:
        """Stop in good order, and check that nothing is left that is not needed.

        A start moves segments that a crash left behind in the background, and this stop may have
        come first: then the next start moves them, which is awaited.
        """
        self._broker.stop()
        report = check(str(self._broker.data_dir), with_progress=False)
        problems = [one for one in report.problems if one.damage or one.segment is None]
        left = [self._broker.data_dir / one.file for one in report.problems if one not in problems]
        self.summary.problems += [f"{one.file}: {one.text}" for one in problems]
        database = Database(str(self._broker.data_dir / FILE))
        try:
            self.summary.problems += [f"{key} is left" for key in self._needless(database)]
        finally:
            database.close()
        self._change_workers()
        self._broker.start()
        for load in self._loads:
            load.restarted()
        self._await_moved(left)

    def _await_moved(self, segments: Sequence[Path]) -> None:
        """Wait until no segment of these is where segments are served from."""
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while left := [path for path in segments if path.exists()]:
            if time.monotonic() > deadline:
                self.summary.problems += [f"{path} is listed nowhere and stays" for path in left]
                return
            time.sleep(POLL_SECONDS)

    def _needless(self, database: Database) -> list[str]:
        """Keys of deletions, and of topics that were deleted."""
        there = {
            (load.namespace, name)
            for load in self._loads
            for name in {*load.book.families, *load.book.schemas}
        }
        found = list(database.keys().under("/deletions/"))
        for prefix in KEYS_OF_TOPICS:
            for key in database.keys().under(f"{prefix}{TENANT}/"):
                space, *rest = key.removeprefix(f"{prefix}{TENANT}/").split("/")
                names = [part for part in rest if part != "persistent"]
                name = unquote_plus(names[0]).partition("-partition-")[0] if names else None
                namespace = f"{TENANT}/{space}"
                exists = any(load.namespace == namespace and load.book.exists
                             for load in self._loads)  # fmt: skip
                if not exists or (name is not None and (namespace, name) not in there):
                    found.append(key)
        return found


@click.command()
@click.option("--cycles", default=100, show_default=True, help="How many times to kill it.")
@click.option("--seed", type=int, help="Of what is done and when it is killed.")
@click.option("--workers", type=click.IntRange(1, 4), default=1, help="The most that it has.")
def main(cycles: int, seed: int | None, workers: int) -> None:
    """Kill a broker under changes again and again, and print the outcome."""
    seed = random.randrange(1 << 32) if seed is None else seed
    directory = Path(tempfile.mkdtemp(prefix="magnetar-torture-"))
    click.echo(f"seed {seed}, data in {directory}")
    several = {"magnetarWorkers": str(workers)}
    broker = RunningBroker(directory / "data", **SETTINGS, **several).start()
    good = False
    try:
        summary = AdminTorture(broker, seed, cycles, workers, output=click.echo).go()
        good = not summary.problems
        click.echo(f"\n{summary}")
    finally:
        broker.kill()
        if good:
            shutil.rmtree(directory)
        else:
            click.echo(f"The data directory and the broker's log are kept in {directory}")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
