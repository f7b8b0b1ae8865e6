"""What every process of a torture knows about the broker: when it lives, and what went wrong."""

import multiprocessing
from dataclasses import dataclass, field
from typing import Any

from magnetar_broker.names.bundles import Bundles
from magnetar_proto.names import TopicName

CONTEXT = multiprocessing.get_context("spawn")
"""Clients of other processes begin afresh: the threads of an official client outlive no fork."""
DEAD = -1
BUNDLES = 16
"""Of the namespace that is used: one worker at a time serves all topics of one."""


class Lives:
    """A *life* is the time between two kills of the process that serves a topic, numbered by the
    kills before it.

    Only one process calls `killed`, `starting` and `started`; all may look.
    """

    def __init__(self) -> None:
        self._changed = CONTEXT.Condition()
        self._kills = CONTEXT.Value("i", 0, lock=False)
        self._life = CONTEXT.Value("i", 0, lock=False)
        self._coming = CONTEXT.Value("b", 0, lock=False)

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

    def of(self, topic: str) -> Lives:
        """Those of the process that serves a topic."""
        return self._of_bundles[self.bundles.index_of(TopicName.parse(topic))]

    def all(self) -> list[Lives]:
        """Those that end with the broker."""
        return self._of_bundles


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
