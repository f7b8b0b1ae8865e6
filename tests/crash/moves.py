"""Moves of bundles between the workers of a broker while its processes are killed.

A `Mover` has the controller move one random bundle after the other, and knows for every kill
(`victims.py`) which move it hit.  A move may fail only because a process was killed, and it ends
whatever was killed.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import NamedTuple

from admin_http import Admin
from crash.lives import BUNDLES, WorkersLives
from crash.owners import owner_of
from crash.victims import PROBES, Controller, Pause, Trouble, Victim, Worker, owners_of_probes
from magnetar_proto.names import TopicName
from raw_client import Closed, RawClient
from running_broker import RunningBroker

NAMESPACE = "public/default"
LONGEST_PAUSE_SECONDS = 0.1
"""Between two moves."""
ELSEWHERE = 0.2
"""How often a bundle is moved that may have no topic."""
DONE = 204
NOT_READY = 503
"""What is answered while a process ends or starts; no other refusal is right."""
END_SECONDS = 600.0
"""Until a move is over: more than its clients wait for the answer, and then for a lookup."""


class Move(NamedTuple):
    """A bundle, by its number, from one worker to another."""

    bundle: int
    former: int
    new: int

    def __str__(self) -> str:
        return f"the move of bundle {self.bundle} from worker {self.former} to {self.new}"


@dataclass
class MoveReport:
    """What came of all moves of a run."""

    answered: int = 0
    failed: int = 0
    """Because a process ended."""
    hit: Counter[str] = field(default_factory=Counter)
    """Moves that a kill hit while they were under way, by what was killed."""
    seconds: list[float] = field(default_factory=list)
    """How long those took that were answered."""

    def __str__(self) -> str:
        kinds = "".join(f", {count} of {what}" for what, count in self.hit.most_common())
        lasted = sorted(self.seconds)
        took = f" after {1000 * lasted[len(lasted) // 2]:.0f} ms (median)" if lasted else ""
        return (
            f"{self.answered} moves of bundles were answered{took}, {self.failed} failed because "
            f"a process ended; {self.hit.total()} were hit by a kill{kinds}"
        )

    def problems(self) -> list[str]:
        """A run in which nothing was moved has shown nothing about moves."""
        return [] if self.answered else ["no bundle was moved"]


class Mover:
    """Moves bundles in a thread of its own: `go_on` and `rest` by turns, at last `end`."""

    def __init__(
        self, broker: RunningBroker, lives: WorkersLives, seed: int, alarm: Callable[[str], None]
    ) -> None:
        """`alarm` is called with what no kill explains."""
        self.report = MoveReport()
        self._broker = broker
        self._lives = lives
        self._alarm = alarm
        self._dice = random.Random(f"moves {seed}")
        self._changed = threading.Condition()
        self._moving: Move | None = None
        self._begun = 0
        self._strikes = 0
        self._down = False
        """A process was killed, and is not back."""
        self._going = self._ended = False
        self._busy: list[int] = []
        """Bundles that have topics of the load."""
        self._thread = threading.Thread(target=self._run, name="mover", daemon=True)
        self._thread.start()

    # The side of the torture ----------------------------------------------------------------

    def load(self, topics: str) -> None:
        """From now on mostly bundles are moved that have topics whose names begin so."""
        answer = Admin(self._broker).get(f"persistent/{NAMESPACE}")
        names = [TopicName.parse(name) for name in answer.json if f"/{topics}" in name]
        self._busy = sorted({self._lives.bundles.index_of(name) for name in names})

    def go_on(self) -> None:
        """The broker has started, maybe with other workers, and is ready: move."""
        self.rest()
        self._lives.placed(owners_of_probes(self._broker))
        with self._changed:
            self._down, self._going = False, self._lives.workers > 1
            self._changed.notify_all()

    def rest(self) -> None:
        """Move nothing from now on; no move is under way on return.  `Trouble` if one stays so."""
        with self._changed:
            self._going = False
            if not self._changed.wait_for(lambda: self._moving is None, END_SECONDS):
                raise Trouble(f"{self._moving} is not over after {END_SECONDS:.0f} s")

    def end(self) -> None:
        """For good; the thread has ended on return.  `Trouble` if it does not."""
        with self._changed:
            self._going, self._ended = False, True
            self._changed.notify_all()
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            raise Trouble(f"{self._moving} is not over after {END_SECONDS:.0f} s")

    def await_move(self, seconds: float) -> Move | None:
        """The next move, which has just begun; None if none begins."""
        with self._changed:
            begun = self._begun
            self._changed.wait_for(lambda: self._begun > begun, seconds)
            return self._moving if self._begun > begun else None

    def await_answer(self) -> None:
        """Return when one more move was answered, if moves are made, or that takes too long."""
        with self._changed:
            answered = self.report.answered
            self._changed.wait_for(
                lambda: self.report.answered > answered or not self._going, END_SECONDS
            )

    def strikes(self, victim: Victim) -> None:
        """This is about to be killed or paused."""
        if isinstance(victim, Pause):
            return
        with self._changed:
            self._down = True
            self._strikes += 1
            self._going &= isinstance(victim, Worker | Controller)  # else there is no broker to ask
            if self._moving is not None:
                self.report.hit[role_of(victim, self._moving)] += 1

    def recovered(self, victim: Victim) -> None:
        """It is back."""
        if isinstance(victim, Pause):
            return
        if isinstance(victim, Worker | Controller):  # all bundles are where they were
            with self._changed:
                self._down = False
        else:
            self.go_on()

    # The thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while (begun := self._begin()) is not None:
            move, certain, strikes = begun
            trouble = None
            try:
                trouble = self._make(move, certain)
            except Exception as error:
                self._alarm(f"{move}, whatever was killed: {error!r}")
            with self._changed:
                self._moving = None
                if trouble is not None and certain and strikes == self._strikes:
                    self._alarm(f"{move} failed, and no process was killed: {trouble}")
                self._changed.notify_all()
                pause = self._dice.uniform(0, LONGEST_PAUSE_SECONDS)
                self._changed.wait_for(lambda: self._ended, pause)

    def _begin(self) -> tuple[Move, bool, int] | None:
        """The next move, whether it must succeed unless something is killed, and the kills before;
        None at the end.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._going or self._ended)
            if self._ended:
                return None
            elsewhere = not self._busy or self._dice.random() < ELSEWHERE
            bundle = self._dice.choice(range(BUNDLES) if elsewhere else self._busy)
            former = self._dice.choice(sorted(self._lives.owners_of(bundle)))
            others = [number for number in range(self._lives.workers) if number != former]
            move = self._moving = Move(bundle, former, self._dice.choice(others))
            self._lives.move_begins(bundle, move.new)
            self._begun += 1
            self._changed.notify_all()
            return move, not self._down, self._strikes

    def _make(self, move: Move, certain: bool) -> str | None:
        """What a kill explains, if it went wrong; None otherwise.  Raises what no kill explains."""
        failure: str | None = "no answer"
        try:
            failure = self._ask(move)
        finally:
            self._over(move, failure)
        return self._look(move) if failure is None and certain else failure

    def _ask(self, move: Move) -> str | None:
        """Have the controller do it; why it failed, None if it did not."""
        path = f"namespaces/{NAMESPACE}/{self._lives.bundles.ranges[move.bundle]}/unload"
        began = time.monotonic()
        try:
            answer = Admin(self._broker).put(f"{path}?destinationBroker=worker-{move.new}")
        except TimeoutError as error:
            raise Trouble(f"it is not answered: {error!r}") from error
        except (OSError, HTTPException) as error:
            return repr(error)
        if answer.status == DONE:
            self.report.seconds.append(time.monotonic() - began)
            return None
        if answer.status != NOT_READY:
            raise Trouble(f"it is answered with {answer.status} {answer.body!r}")
        return f"{answer.status} {answer.body!r}"

    def _over(self, move: Move, trouble: str | None) -> None:
        with self._changed:
            self._lives.move_ends(move.bundle, move.new if trouble is None else None)
            if trouble is None:
                self.report.answered += 1
            else:
                self.report.failed += 1

    def _look(self, move: Move) -> str | None:
        """Whether clients are sent to the new owner; what is wrong, None if nothing is."""
        try:
            with RawClient(self._broker.port) as client:
                owner = owner_of(client, PROBES[move.bundle])
        except TimeoutError as error:
            raise Trouble(f"a lookup after it is not answered: {error!r}") from error
        except (Closed, OSError) as error:
            return f"it was answered, and topics cannot be looked up: {error}"
        return None if owner == move.new else f"it was answered, and the owner is worker {owner}"


def role_of(victim: Victim, move: Move) -> str:
    """What a victim is for a move that is under way."""
    if isinstance(victim, Worker):
        roles = {move.former: "the former owner", move.new: "the new owner"}
        return roles.get(victim.number, "another worker")
    return f"the {victim}".lower()
