"""What every process of a torture knows about the broker: when it lives, and what went wrong."""

import multiprocessing
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from magnetar_broker.placement.bundles import Bundles
from magnetar_proto.names import TopicName

CONTEXT = multiprocessing.get_context("spawn")
"""Clients of other processes begin afresh: the threads of an official client outlive no fork."""
DEAD = -1
BUNDLES = 16
"""Of the namespace that is used: one worker at a time serves all topics of one."""


class Lives:
    """A *life* is the time between two kills of the process that serves a topic, numbered by the
    kills before it.

    A move to another process ends no life: what is promised holds on.  But clients may still read
    what the former owner has sent when the next one has sent it again, and what they have on the
    way to the former owner is lost, so moves are counted as well.

    After a move a client may be served through a process that relays, whose kill ends its
    connection, too.  So it may after a start that places topics elsewhere: the client was told
    their owner before.

    Only one process calls the methods that change something; all may look.
    """

    def __init__(self) -> None:
        self._changed = CONTEXT.Condition()
        self._kills = CONTEXT.Value("i", 0, lock=False)
        self._life = CONTEXT.Value("i", 0, lock=False)
        self._coming = CONTEXT.Value("b", 0, lock=False)
        self._moves_begun = CONTEXT.Value("i", 0, lock=False)
        self._moves_ended = CONTEXT.Value("i", 0, lock=False)
        self._relays_killed = CONTEXT.Value("i", 0, lock=False)
        self._disturbed_at = CONTEXT.Value("d", 0.0, lock=False)

    @property
    def kills(self) -> int:
        """How often the broker was killed so far."""
        return int(self._kills.value)

    @property
    def life(self) -> int | None:
        """The present life; None while the broker is not known to be ready."""
        life = int(self._life.value)
        return None if life == DEAD else life

    @property
    def coming(self) -> bool:
        """It is being started: a connection made from now on is to the next life."""
        return bool(self._coming.value)

    @property
    def connectable(self) -> int | None:
        """The life that a connection made now belongs to; None if that is unknown."""
        return self.kills if self.coming or self.life is not None else None

    @property
    def moves_begun(self) -> int:
        """How many moves to another process were asked for."""
        return int(self._moves_begun.value)

    @property
    def moves_ended(self) -> int:
        """How many of them are over, whatever came of them."""
        return int(self._moves_ended.value)

    @property
    def moving(self) -> bool:
        """Whether a move is under way."""
        return self.moves_begun != self.moves_ended

    @property
    def relays_killed(self) -> int:
        """How often another process than the topic's was killed that may have relayed to it."""
        return int(self._relays_killed.value)

    @property
    def disturbed_at(self) -> float:
        """When the last move was over, or such a process killed, by the monotonic clock; or 0."""
        return float(self._disturbed_at.value)

    def move_begins(self) -> None:
        """It is about to be moved to another process."""
        self._moves_begun.value += 1

    def move_ends(self) -> None:
        """It was moved, or the move has failed."""
        self._disturbed_at.value = time.monotonic()
        self._moves_ended.value += 1

    def relay_killed(self) -> None:
        """A process is about to be killed that may relay to the topic's."""
        self._disturbed_at.value = time.monotonic()
        self._relays_killed.value += 1

    def killed(self) -> None:
        """The broker is about to be killed."""
        with self._changed:
            self._life.value = DEAD
            self._coming.value = 0
            self._kills.value += 1

    def starting(self) -> None:
        """It is about to be started."""
        with self._changed:
            self._coming.value = 1

    def started(self) -> None:
        """It is ready again."""
        with self._changed:
            self._coming.value = 0
            self._life.value = self.kills
            self._changed.notify_all()

    def await_life(self, seconds: float) -> int | None:
        """The life that is coming or there; None if it was over before it was ready."""
        kills = self.kills
        with self._changed:
            self._changed.wait_for(lambda: self.life is not None, seconds)
            return self.life if self.life == kills else None


class WorkersLives:
    """The lives of a broker's bundles of topics: each ends with the worker that owns it then."""

    bundles = Bundles.even(BUNDLES)

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        """How many the broker has; there may be others after every start."""
        self._of_bundles = [Lives() for _ in range(BUNDLES)]
        self._owners: list[set[int]] = [set() for _ in range(BUNDLES)]
        """The workers that may have topics of each bundle; two during a move."""
        self._moved: set[int] = set()
        """Bundles that have had another owner since the start before the last one."""
        self._lock = CONTEXT.RLock()

    def of(self, topic: str) -> Lives:
        """Those of the process that serves a topic."""
        return self._of_bundles[self.bundles.index_of(TopicName.parse(topic))]

    def all(self) -> list[Lives]:
        """Those that end with the broker."""
        return self._of_bundles

    # Owners: for the process that kills and moves ---------------------------------------------

    def unchanged(self) -> AbstractContextManager[bool]:
        """No owner changes until the block ends."""
        return self._lock

    def placed(self, owners: Iterable[int]) -> None:
        """The broker has started, and these are the owners of the bundles."""
        with self._lock:
            before, self._owners = self._owners, [{owner} for owner in owners]
            # A move that the kill has cut short has told clients the owner that it was to have.
            pairs = enumerate(zip(before, self._owners, strict=True))
            self._moved = {bundle for bundle, (then, now) in pairs if then and then != now}

    def owners_of(self, bundle: int) -> set[int]:
        """The workers that may have topics of a bundle."""
        return self._owners[bundle]

    def of_worker(self, number: int) -> list[Lives]:
        """Those that end with a worker now."""
        pairs = zip(self._of_bundles, self._owners, strict=True)
        return [lives for lives, owners in pairs if number in owners]

    def relay_killed(self, number: int) -> None:
        """A worker is about to be killed; it may relay to other owners of bundles that moved."""
        for bundle in self._moved:
            if number not in self._owners[bundle]:
                self._of_bundles[bundle].relay_killed()

    def moving(self) -> list[int]:
        """The bundles that are being moved."""
        return [bundle for bundle, lives in enumerate(self._of_bundles) if lives.moving]

    def move_begins(self, bundle: int, *new: int) -> None:
        """A bundle is about to be moved to a worker, or may be to one of several."""
        with self._lock:
            self._moved.add(bundle)
            self._owners[bundle] = self._owners[bundle] | {*new}
            self._of_bundles[bundle].move_begins()

    def move_ends(self, bundle: int, owner: int | None) -> None:
        """It has this owner now; None if the move failed, so that any of them may have topics."""
        with self._lock:
            if owner is not None:
                self._owners[bundle] = {owner}
            self._of_bundles[bundle].move_ends()


@dataclass
class Tally:
    """Figures of one load while it runs; written by it alone."""

    sent: Any = field(default_factory=lambda: CONTEXT.Value("q", 0, lock=False))
    receipts: Any = field(default_factory=lambda: CONTEXT.Value("q", 0, lock=False))
    deliveries: Any = field(default_factory=lambda: CONTEXT.Value("q", 0, lock=False))
    acks: Any = field(default_factory=lambda: CONTEXT.Value("q", 0, lock=False))

    @property
    def figures(self) -> tuple[int, int, int, int]:
        """Messages sent, receipts, deliveries, answered acks or such that went out."""
        return self.sent.value, self.receipts.value, self.deliveries.value, self.acks.value


@dataclass(frozen=True)
class Setup:
    """What one load is given."""

    topic: str
    """The beginning of its topics' names; no other client uses them."""
    port: int
    http_url: str
    lives: WorkersLives
    alarms: Any
    """A queue for problems that make it pointless to continue."""
    tally: Tally = field(default_factory=Tally)

    @property
    def service_url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    def alarm(self, problem: str) -> None:
        """Stop all clients, because of this."""
        self.alarms.put(problem)
