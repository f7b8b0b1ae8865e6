"""Power losses at every turn of random histories of the storage engine, on a simulated disk.

A history is some topics with cursors, to which random things are asked, in a store whose
threads take turns at random.  Before every single change to the disk the machine is copied,
and the copies lose their power: what was not synced is dropped, kept, torn or reordered,
files and names alike.  They recover, perhaps lose power again while they do or soon after,
and what they hold is compared with models that know what was confirmed.

    python -m crash.disk_torture --points 100000 --jobs 2      (in the tests directory)
"""

import sys
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from random import Random
from types import CoroutineType

import click

from crash.disk_life import ACTIONS, Actions, Life
from crash.disk_model import TopicModel
from crash.disk_world import InlineWorld, SteppedWorld
from fakes.faulty_disk import Crash, FaultyDisk
from fakes.memory_metadata import MemoryMetadata
from magnetar_storage.errors import Unavailable
from magnetar_storage.local.limits import Limits
from magnetar_storage.verify.verify import verify

LIMITS = (
    Limits(
        journal_file_bytes=512, round_bytes=400, ahead_bytes=100, write_behind_bytes=300,
        small_flush_bytes=0, unwritten_bytes=4096, checkpoint_bytes=1500, index_bytes=1,
        slice_segments=1, loaded_segments=2,
    ),
    Limits(
        journal_file_bytes=1500, round_bytes=700, write_behind_bytes=600, small_flush_bytes=200,
        unwritten_bytes=8192, checkpoint_bytes=5000, index_bytes=500, slice_segments=3,
        loaded_segments=3,
    ),
    Limits(
        journal_file_bytes=900, round_bytes=500, ahead_bytes=250, write_behind_bytes=1 << 20,
        unwritten_bytes=1 << 22, checkpoint_bytes=1 << 20, index_bytes=200, loaded_segments=4,
    ),
)  # fmt: skip
"""Everything often; everything now and then; a long journal."""

VARIANTS = 2
"""Crashes from each state of a history."""
VERIFY_ONE_OF = 8
LONGEST_HISTORY = 40
LONGEST_LIFE_AFTER = 6
MORE_CRASHES = 3
"""At most so many after the first one, one out of two points having none."""


@dataclass
class Outcome:
    """What came of a history, or of all of them."""

    points: int = 0
    crashes: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.points += other.points
        self.crashes += other.crashes
        self.failures += other.failures


class History:
    """A history by its seed; `run` crashes it in as many places as wanted."""

    def __init__(
        self,
        seed: int,
        only: int | None = None,
        points: int = 1 << 60,
        disk: FaultyDisk | None = None,
        directories: int = 1,
        actions: Actions = ACTIONS,
    ) -> None:
        """`only`: crash at that point alone.  `points`: crash at no more than so many.
        `directories`: the most processes, of which each has a store directory of its own."""
        self.outcome = Outcome()
        self._seed = seed
        self._only = only
        self._limit = points
        self._directories = directories
        self._actions = actions
        self._next = 0
        self._dice = Random(seed)
        self._limits = self._dice.choice(LIMITS)
        self._uniform = self._dice.randrange(3) == 0
        self._disk = disk or FaultyDisk()
        self._models = [TopicModel(f"/topics/{n}") for n in range(self._dice.randint(1, 3))]
        self._made = len(self._models)
        self._life: Life | None = None

    def run(self) -> Outcome:
        """Run all of it; the failures state how to repeat them."""
        try:
            self._run()
        except Exception:
            text = f"--seed {self._seed} --point -1, without a crash\n{traceback.format_exc()}"
            self.outcome.failures.append(text)
        finally:
            self._disk.before = None
        return self.outcome

    def _run(self) -> None:
        closed = False
        for _ in range(1 + self._dice.randrange(3)):
            with SteppedWorld(self._disk, self._dice, self._point) as world:
                metadata = None if self._life is None else self._life.metadata
                self._life = Life(
                    self._disk, metadata, self._models, world, self._limits, self._dice,
                    self._uniform, self._directories, self._actions,
                )  # fmt: skip
                self._life.open(closed)
                closed = self._live(self._life)
            # Without close the process was killed: what it wrote is there, synced or not.
            self._disk.locks.clear()
            self._disk.open_files.clear()

    def _live(self, life: Life) -> bool:
        """A life, up to a stop in good order (True) or a kill."""
        for _ in range(self._dice.randrange(4, LONGEST_HISTORY)):
            self._turn(life)
        what = self._dice.randrange(6)
        if what == 0:
            self._have_trouble(life)
        elif what == 1:
            life.delete(life._topics[0])
            self._models.append(TopicModel(f"/topics/{self._made}"))
            self._made += 1
        elif what < 4:
            life.close()
        return what in (2, 3)

    def _turn(self, life: Life) -> None:
        life.act()
        for _ in range(self._dice.choice((0, 1, 3, 10, 30))):
            life.world.step()

    def _have_trouble(self, life: Life) -> None:
        """The disk is full, or fails to sync, for some turns."""
        life.trouble = True
        if self._dice.randrange(2):
            self._disk.room = self._dice.randrange(800)
        else:
            self._disk.failing_syncs = 1 + self._dice.randrange(3)
        for _ in range(self._dice.randrange(4, 12)):
            self._turn(life)
        self._disk.room, self._disk.failing_syncs = 1 << 40, 0
        while life.world.step():
            pass
        if life.processes.trouble is None:
            life.mend()
            for _ in range(self._dice.randrange(4, 12)):
                self._turn(life)

    def _point(self, what: str, name: str) -> None:
        """The disk is about to change: crash copies of the machine as it is now."""
        for _ in range(VARIANTS):
            point, self._next = self._next, self._next + 1
            if self._only not in (None, point) or self.outcome.points >= self._limit:
                continue
            self.outcome.points += 1
            dice = Random(f"{self._seed} {point}")
            try:
                self.outcome.crashes += self._crash(dice)
            except Exception:
                self.outcome.failures.append(
                    f"--seed {self._seed} --point {point}, before: {what} {name}\n"
                    f"{traceback.format_exc()}"
                )
                self._limit = self.outcome.points

    def _crash(self, dice: Random) -> int:
        """Crash a copy now, and perhaps some times more; returns how often."""
        disk = self._disk.fork()
        disk.room = 1 << 40
        models = [model.copy() for model in self._models]
        metadata = None if self._life is None else self._life.metadata
        more = max(0, dice.randrange(-MORE_CRASHES, MORE_CRASHES + 1))
        for again in range(more + 1):
            disk.crash(dice.randrange)
            if dice.randrange(VERIFY_ONE_OF) == 0:
                expect_no_damage(disk, metadata)
            if again < more:
                disk.crash_at = disk.operations + dice.randrange(40)
            life = Life(
                disk, metadata, models, InlineWorld(), self._limits, dice, self._uniform,
                self._directories, self._actions,
            )  # fmt: skip
            metadata = life.metadata
            try:
                life.open()
                for _ in range(dice.randrange(LONGEST_LIFE_AFTER)):
                    life.act()
                    for _ in range(dice.choice((0, 3, 100))):
                        life.world.step()
                life.close()
            except Crash:
                continue
        life = Life(
            disk, metadata, models, InlineWorld(), self._limits, dice,
            directories=self._directories,
        )  # fmt: skip
        life.open(after_close=True)
        life.close()
        return more + 1


def expect_no_damage(disk: FaultyDisk, metadata: MemoryMetadata | None) -> None:
    """`magnetar verify` does not mistake what a crash leaves behind for damage."""
    values = {} if metadata is None else metadata._values
    try:
        report = verify(disk, {key: found.value for key, found in values.items()})
    except Unavailable:
        assert not disk.list("segments"), "there is something to be verified"
        return
    assert not report.damaged, f"damage where there is none: {report.problems}"


def torture(
    seed: int, points: int, jobs: int, progress: Callable[[Outcome], None], directories: int = 1
) -> Outcome:
    """Histories of consecutive seeds until there were so many points, or one failed."""
    total = Outcome()
    if jobs == 1:
        while total.points < points and not total.failures:
            left = points - total.points
            total.add(History(seed, points=left, directories=directories).run())
            seed += 1
            progress(total)
        return total
    with ProcessPoolExecutor(jobs, initializer=be_quiet) as pool:
        running: set[Future[Outcome]] = set()
        while total.points < points and not total.failures:
            while len(running) < 2 * jobs:
                running.add(pool.submit(_run, seed, directories))
                seed += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                total.add(future.result())
            progress(total)
        pool.shutdown(cancel_futures=True)
    return total


def _run(seed: int, directories: int) -> Outcome:
    return History(seed, directories=directories).run()


def be_quiet() -> None:
    """Suppress warnings of coroutines of stopped machines, which never continue."""
    warnings.filterwarnings("ignore", "coroutine .* was never awaited")
    default_hook = sys.unraisablehook

    def hook(what: "sys.UnraisableHookArgs") -> None:
        if not isinstance(what.object, CoroutineType):
            default_hook(what)

    sys.unraisablehook = hook


class Progress:
    """A line a second: rewritten in place on a terminal."""

    def __init__(self, points: int) -> None:
        self._points = points
        self._began = self._shown_at = time.monotonic()

    def __call__(self, so_far: Outcome) -> None:
        now = time.monotonic()
        if now - self._shown_at < (1 if sys.stderr.isatty() else 30):
            return
        self._shown_at = now
        rate = so_far.points / (now - self._began)
        left = max(0, self._points - so_far.points) / max(rate, 1e-9)
        line = f"{so_far.points:,} of {self._points:,} points, {rate:.0f}/s, {left:.0f} s left"
        click.echo(
            f"\r{line:<70}" if sys.stderr.isatty() else line, err=True, nl=not sys.stderr.isatty()
        )

    def seconds(self) -> float:
        return time.monotonic() - self._began


@click.command()
@click.option("--points", type=click.IntRange(1), default=10_000, show_default=True,
              help="How many power losses, not counting those that follow them.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Of the first history.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--directories", type=click.IntRange(1), default=1, show_default=True,
              help="The most workers, between which topics move.")  # fmt: skip
@click.option("--point", type=int, help="Only this point of the history of --seed.")
def main(points: int, seed: int, jobs: int, directories: int, point: int | None) -> None:
    """Let a simulated machine lose its power in many places, and print the outcome."""
    be_quiet()
    progress = Progress(points)
    if point is not None:
        total = History(seed, only=point, directories=directories).run()
    else:
        total = torture(seed, points, jobs, progress, directories)
    for failure in total.failures:
        options = f"--directories {directories} {failure.splitlines()[0]}"
        click.echo(f"\nFAILED {failure}\nrepeat it: python -m crash.disk_torture {options}")
    seconds = progress.seconds()
    click.echo(
        f"{total.points:,} points, {total.crashes:,} power losses in {seconds:.0f} s "
        f"({total.points / seconds:.0f} points/s): "
        + (f"{len(total.failures)} failed" if total.failures else "nothing lost, nothing invented")
    )
    raise SystemExit(bool(total.failures))


if __name__ == "__main__":
    main()
