"""Kill the broker under load, again and again, and compare what it promised with what it kept.

`make torture CYCLES=n [SEED=s] [BROKER_WORKERS=n]`.  Each era has topics and clients of its own:
official ones in this process and in another one, raw ones in two more.  At its end everything is
read and compared, the broker is restarted in good order, compared again, and the topics are
emptied.

With several workers a kill is of one of its processes or of all (`victims.py`), and the number of
workers changes.  Meanwhile bundles of topics are moved between the workers (`moves.py`).
"""

import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from crash.backlogs import differences
from crash.clients import Clients
from crash.delivery_load import delivery_load
from crash.file_events import FileEvents
from crash.lives import BUNDLES, CONTEXT, Setup, WorkersLives
from crash.moves import Mover, MoveReport
from crash.raw_load import raw_load
from crash.record import Promise, Report, few
from crash.victims import Trouble, Victim, WholeBroker, Worker, some_victim
from magnetar_broker.verify import check
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import RawClient
from running_broker import RunningBroker

CYCLES_OF_AN_ERA = 25
LONGEST_LIFE_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 2.0
"""For a moment that may not come in this life."""
LONGEST_DELAY_SECONDS = 0.01
"""Between a file event and the kill."""
KILLED_AT_START = 0.25
"""How often the next start is killed too, and the one after that, ..."""
LONGEST_START_SECONDS = 1.0
RECOVERY_SECONDS = 5.0
"""Until a start writes something, at most."""
KILLS_OF_A_CYCLE = 8
KILLED_IN_MOVE = 0.4
"""How often a process of several is killed in a move."""
LONGEST_MOVE_SECONDS = 0.1
"""Between the beginning of a move and the kill."""
START_SECONDS = 300
END_SECONDS = 1800
FILES = {
    "in a checkpoint": "checkpoint-",
    "in write-behind": "segments/",
    "at a new journal file": "journal/",
    "in metadata": "metadata.db",
}
MOMENTS = (
    "at random", "at random", "at a receipt", "at an answered ack", *FILES
)  # fmt: skip
STORAGE: tuple[dict[str, str], ...] = (
    {},
    {"magnetarCheckpointSizeMB": "1"},
    {"magnetarCheckpointSizeMB": "16", "magnetarWriteBehindSizeMB": "1"},
    {"magnetarCheckpointSizeMB": "4", "magnetarWriteBehindSizeMB": "2"},
    {"managedLedgerMaxEntriesPerLedger": "500"},
)
"""Settings that make what is rare frequent; a start takes one of them."""
PHASES = re.compile(
    r"INFO (.*?)magnetar\S*: (ready after .*)$|(starting \w+ again in .*)$", re.MULTILINE
)
"""Lines of the log that tell where the time of a start went."""
SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": "5000",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "retentionCheckIntervalInSeconds": "1",
    "activeConsumerFailoverDelayTimeMillis": "0",
    "defaultNumberOfNamespaceBundles": str(BUNDLES),
    # Only the mover moves bundles: a kill must end the lives of those that the killed worker owns.
    "loadBalancerSheddingEnabled": "false",
}


class Start(NamedTuple):
    """How the broker came back after a kill, or after a pause."""

    seconds: float
    victim: str
    phases: list[str]
    """What each process that was started has logged about its own start."""

    @classmethod
    def of(cls, began: float, victim: Victim, log: str) -> "Start":
        """The one that has ended now; it is in this part of the log."""
        return cls(
            time.monotonic() - began,
            str(victim),
            ["".join(found) for found in PHASES.findall(log)],
        )

    def __str__(self) -> str:
        own = "; ".join(self.phases) or "no process was started"
        return f"{self.seconds:.2f} s after the kill or pause of {self.victim} ({own})"


@dataclass
class Summary:
    """What came of a run."""

    report: Report = field(default_factory=Report)
    cycles: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    starts: list[Start] = field(default_factory=list)
    moves: MoveReport | None = None
    """None with one worker."""

    def __str__(self) -> str:
        starts = sorted(self.starts)
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kills.most_common())
        return "\n".join([
            f"{self.cycles} cycles, {self.kills.total()} kills: {kinds}",
            f"ready again after {starts[len(starts) // 2].seconds:.2f} s (median); the slowest: "
            f"{starts[-1]}",
            *([] if self.moves is None else [str(self.moves)]),
            str(self.report),
        ])  # fmt: skip


class Child:
    """A load in a process of its own."""

    def __init__(self, load: Callable[..., Report], setup: Setup) -> None:
        self.setup = setup
        self._stop, self._started = CONTEXT.Event(), CONTEXT.Event()
        self._result, theirs = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(
            target=_in_child, args=(load, setup, self._started, self._stop, theirs), daemon=True
        )
        self._process.start()
        theirs.close()

    def start(self) -> None:
        """Wait until it works."""
        if not self._started.wait(START_SECONDS):
            raise RuntimeError("a load did not start")

    def stop(self) -> None:
        """Let it end and compare."""
        self._stop.set()

    def finish(self) -> Report:
        """What it found."""
        self.stop()
        try:
            if not self._result.poll(END_SECONDS):
                return Report(problems=[f"{self.setup.topic}: its clients do not end"])
            found: Report = self._result.recv()
        except EOFError:
            return Report(problems=[f"{self.setup.topic}: its clients ended without a verdict"])
        self._process.join()
        return found

    def abandon(self) -> None:
        """End it without a verdict."""
        self._process.kill()
        self._process.join()


def _in_child(
    load: Callable[..., Report], setup: Setup, started: Any, stop: Any, result: Any
) -> None:
    try:
        result.send(load(setup, started, stop))
    except BaseException as error:
        result.send(Report(problems=[f"{setup.topic}: {error!r}"]))
        raise


def official_load(setup: Setup, started: Any, stop: Any) -> Report:
    """Official clients, for a process."""
    clients = Clients(setup)
    clients.start()
    started.set()
    stop.wait()
    return clients.finish()


class Torture:
    """One run over one broker; `go` does it all."""

    def __init__(
        self,
        broker: RunningBroker,
        seed: int,
        cycles: int,
        workers: int = 1,
        output: Callable[[str], None] = print,
    ) -> None:
        """`workers` is the most that it has; it must be started with so many."""
        self.broker = broker
        self.summary = Summary()
        self.seed = seed
        self.cycles = cycles
        self._print = output
        self._random = random.Random(seed)
        self._workers = workers
        self._lives = WorkersLives(workers)
        self._alarms = CONTEXT.SimpleQueue()

    def go(self) -> Summary:
        """Kill the broker so many times, in as many eras as that takes."""
        stores = ["", *(f"workers/{number}/" for number in range(1, self._workers))]
        folders = [f"{store}{name}" for store in stores for name in ("", "segments", "journal")]
        self._mover = Mover(self.broker, self._lives, self.seed, self._alarms.put)
        try:
            with FileEvents(self.broker.data_dir, *filter(None, folders)) as events:
                self._events = events
                while self.summary.cycles < self.cycles and not self.summary.report.problems:
                    self._era(min(CYCLES_OF_AN_ERA, self.cycles - self.summary.cycles))
        finally:
            self._mover.end()
        if self._workers > 1:
            self.summary.moves = self._mover.report
            self.summary.report.problems += self.summary.moves.problems()
        if "Traceback" in self.broker.log:
            self.summary.report.problems.append(
                f"the broker met a defect, see {self.broker.log_path}"
            )
        return self.summary

    # An era ---------------------------------------------------------------------------------

    def _era(self, cycles: int) -> None:
        name = f"torture-{self.seed}-{self.summary.cycles}"
        children = [
            Child(raw_load, self._setup(f"{name}-raw")),
            Child(official_load, self._setup(f"{name}-apart")),
            Child(delivery_load, self._setup(f"{name}-delivery")),
        ]
        here = self._here = Clients(self._setup(f"{name}-here"))
        self._setups = [here.setup, *(child.setup for child in children)]
        try:
            here.start()
            for child in children:
                child.start()
            self._mover.load(name)
            try:
                self._cycles(cycles)
            except Trouble as trouble:
                self._alarms.put(str(trouble))
            if not self._alarms.empty():
                # Before the kill, of which loads and moves do not know.
                self.summary.report.problems += list(self._raised())
                self.broker.kill()  # leave everything as it is
                return
            began = time.monotonic()
            for child in children:
                child.stop()
            report = here.finish()
            for child in children:
                report += child.finish()
        finally:
            for child in children:
                child.abandon()
        report.problems += list(self._raised())
        if not report.problems:
            report.problems += self._compare_counts(report)
        self.summary.report += report
        self._print(f"  compared {report.stored:,} messages in {time.monotonic() - began:.0f} s: "
                  f"{'FAILED' if report.problems else 'all is well'}")  # fmt: skip

    def _setup(self, topic: str) -> Setup:
        return Setup(topic, self.broker.port, self.broker.http_url, self._lives, self._alarms)

    def _raised(self) -> Iterator[str]:
        while not self._alarms.empty():
            yield self._alarms.get()

    def _compare_counts(self, report: Report) -> list[str]:
        """The broker's own counts, before and after a restart in good order."""
        expected = report.backlogs
        problems = few("backlogs differ", differences(self.broker.http_url, expected))
        self.broker.stop()
        verified = check(str(self.broker.data_dir), with_progress=False)
        problems += few("damaged files", verified.problems)
        self._change_settings()
        self.broker.start()
        with ExitStack() as clients:
            consumers = []
            for topic, name in expected:
                client = clients.enter_context(RawClient.of_topic(self.broker.port, topic))
                # This also loads the topic, for its figures to be there.
                client.subscribe(topic, name, pb.CommandSubscribe.Shared)
                consumers.append(client)
            problems += few(
                "backlogs differ after a restart", differences(self.broker.http_url, expected)
            )
            for client in consumers:
                client.request(pb.CommandUnsubscribe(consumer_id=1, request_id=0))
        return problems

    # A cycle --------------------------------------------------------------------------------

    def _cycles(self, cycles: int) -> None:
        """So many, or fewer if there is an alarm; then no bundle is moved any more."""
        self._mover.go_on()
        self._mover.await_answer()
        for _ in range(cycles):
            self._cycle()
            if not self._alarms.empty():
                return
        self._live()
        self._mover.rest()

    def _cycle(self) -> None:
        before, logged = self._figures(), len(self.broker.log)
        began = time.monotonic()
        moment = self._random.choice(MOMENTS)
        if self._lives.workers > 1 and self._random.random() < KILLED_IN_MOVE:
            moment = "in a move"
        victim = some_victim(self.broker, self._lives, self._random)
        workers = self._lives.workers
        self._live()
        moment = self._kill_at(moment, victim)
        lived = time.monotonic() - began
        kinds = [moment if workers == 1 else f"{victim} of {workers} {moment}"]
        if victim.starts_anew:
            self._change_settings()
        while (
            isinstance(victim, WholeBroker)
            and self._random.random() < KILLED_AT_START
            and len(kinds) < KILLS_OF_A_CYCLE
        ):
            kinds.append(self._start_and_kill())
        began = time.monotonic()
        victim.recover()
        start = Start.of(began, victim, self.broker.log[logged:])
        self.summary.starts.append(start)
        self._mover.recovered(victim)
        self.summary.kills.update(kinds)
        self.summary.cycles += 1
        sent, receipts, deliveries, acks = (
            now - then for now, then in zip(self._figures(), before, strict=True)
        )
        self._print(
            f"{self.summary.cycles:>4}  lived {lived:4.1f} s, ready after {start.seconds:.2f} s  "
            f"{sent:>8,} sent {receipts:>8,} receipts "
            f"{deliveries:>8,} deliveries {acks:>8,} acks  killed {', '.join(kinds)}"
        )

    def _figures(self) -> list[int]:
        return [sum(of) for of in zip(*(one.tally.figures for one in self._setups), strict=True)]

    def _live(self) -> None:
        """Let the clients work for a while."""
        time.sleep(self._random.uniform(0, LONGEST_LIFE_SECONDS))

    def _change_settings(self) -> None:
        """Of the next start."""
        workers = self._lives.workers = self._random.randint(1, self._workers)
        several = {"magnetarWorkers": str(workers)}
        self.broker.settings = SETTINGS | self._random.choice(STORAGE) | several

    def _kill_at(self, moment: str, victim: Victim) -> str:
        """Strike then; returns what the moment was."""
        if moment in FILES:
            self._events.forget()
            if self._events.await_change(FILES[moment], LONGEST_WAIT_SECONDS):
                self._delay()
            else:
                moment = "at random"
        elif moment == "in a move":
            if not self._await_move(victim):
                moment = "at random"
        elif moment != "at random":
            promise = Promise.RECEIPT if "receipt" in moment else Promise.ACK
            strike = partial(self._strike, victim)
            if self._here.record.kill_at_next(promise, strike, LONGEST_WAIT_SECONDS):
                return moment
            moment = "at random"
        self._strike(victim)
        return moment

    def _strike(self, victim: Victim) -> None:
        self._mover.strikes(victim)
        victim.strike()

    def _await_move(self, victim: Victim) -> bool:
        """Return in the midst of a move, of which a worker to be killed is one of the owners."""
        move = self._mover.await_move(LONGEST_WAIT_SECONDS)
        if move is None:
            return False
        if isinstance(victim, Worker):
            victim.number = self._random.choice((move.former, move.new))
        time.sleep(self._random.choice((0.0, self._random.uniform(0, LONGEST_MOVE_SECONDS))))
        return True

    def _start_and_kill(self) -> str:
        """Start it, and kill it before it is ready or just then."""
        moment = self._random.choice(("while starting", "in recovery"))
        self._events.forget()
        self.broker.kill()  # the rest of it
        for lives in self._lives.all():
            lives.starting()
        self.broker.begin()
        if moment == "while starting":
            time.sleep(self._random.uniform(0, LONGEST_START_SECONDS))
        else:
            part = self._random.choice(("checkpoint-", "segments/"))
            if self._events.await_change(part, RECOVERY_SECONDS):
                self._delay()
            else:
                moment = "while starting"
        WholeBroker(self.broker, self._lives, self._random).strike()
        return moment

    def _delay(self) -> None:
        time.sleep(self._random.choice((0.0, self._random.uniform(0, LONGEST_DELAY_SECONDS))))


class Progress:
    """Lines, and on a terminal a last one that shows the progress."""

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        self._began = time.monotonic()
        self._live = sys.stdout.isatty()

    def __call__(self, line: str) -> None:
        if self._live:
            click.echo("\r\x1b[K", nl=False)
        click.echo(line)
        done = line.split(maxsplit=1)[0]
        if self._live and done.isdigit():
            spent = time.monotonic() - self._began
            left = spent / int(done) * (self._cycles - int(done))
            bar = "#" * (30 * int(done) // self._cycles)
            click.echo(f"[{bar:<30}] {spent / 60:.1f} min, about {left / 60:.1f} min left",
                       nl=False)  # fmt: skip


@click.command()
@click.option("--cycles", default=100, show_default=True, help="How many times to kill it.")
@click.option("--seed", type=int, help="Of the moments of the kills; a new one each time.")
@click.option("--workers", type=click.IntRange(1, 4), default=1, help="The most that it has.")
def main(cycles: int, seed: int | None, workers: int) -> None:
    """Kill a broker under load again and again, and print the outcome."""
    seed = random.randrange(1 << 32) if seed is None else seed
    directory = Path(tempfile.mkdtemp(prefix="magnetar-torture-"))
    click.echo(f"seed {seed}, data in {directory}")
    several = {"magnetarWorkers": str(workers)}
    broker = RunningBroker(directory / "data", **SETTINGS, **several).start()
    try:
        summary = Torture(broker, seed, cycles, workers, Progress(cycles)).go()
        good = not summary.report.problems
        click.echo(f"\n{summary}")
    except BaseException:
        good = False
        raise
    finally:
        broker.kill()
        if good:
            shutil.rmtree(directory)
        else:
            click.echo(f"The data directory and the broker's log are kept in {directory}; "
                       f"repeat it with make torture CYCLES={cycles} SEED={seed} "
                       f"BROKER_WORKERS={workers}")  # fmt: skip
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
