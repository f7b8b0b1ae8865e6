"""The access of producers to a topic: any number that share it, or one exclusive producer.

A topic that had an exclusive producer has an epoch, which grows with each.  It is durable: a
producer that reconnects with an older epoch has been replaced meanwhile, and is fenced (PIP-68).

Pure: the caller stores the epoch that `epoch_for` returns, and then calls `take_over`.
"""

from collections.abc import Callable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from magnetar_broker.base.errors import ProducerBusy, ProducerFenced
from magnetar_proto import PulsarApi_pb2 as pb

T = TypeVar("T")
MAX_EPOCH = 1 << 62
"""An epoch that no topic reaches: a larger one, such as a client's -1, means something else."""


class Mode(Enum):
    """The access mode of a producer, by the protocol's numbers (`ProducerAccessMode`)."""

    SHARED = pb.Shared
    EXCLUSIVE = pb.Exclusive
    WAITING = pb.WaitForExclusive
    FENCING = pb.ExclusiveWithFencing


class Claim(NamedTuple):
    """The access mode that a producer asks for, and the epoch that it had before, if any."""

    mode: Mode = Mode.SHARED
    epoch: int | None = None


class AccessState(Enum):
    """The place that a producer has been given."""

    SHARED = "shared"
    """The producer may publish."""
    SUCCESSOR = "successor"
    """The producer becomes the only one once its epoch is stored: call `take_over` or `leave`."""
    WAITING = "waiting"
    """The producer becomes the successor in its turn: `next_successor` returns it."""


class Access(Generic[T]):
    """The producers of one topic, which is called `where` in refusals."""

    def __init__(self, epoch: int | None, where: str) -> None:
        self.epoch = epoch
        """The epoch of the latest exclusive producer; None if there never was one."""
        self.exclusive = False
        """Whether the present producer excludes all others."""
        self._where = where
        self._inside: dict[T, None] = {}
        self._successor: T | None = None
        self._waiting: dict[T, Claim] = {}

    def __contains__(self, producer: T) -> bool:
        return producer in self._inside

    @property
    def waiting(self) -> list[T]:
        """The waiting producers, in the order of their requests."""
        return list(self._waiting)

    def check_shared(self) -> None:
        """Raise `ProducerBusy` unless the topic can be shared."""
        if self._taken:
            raise ProducerBusy(f"{self._where} has an exclusive producer, or one that waits to be")

    def enter(self, producer: T, claim: Claim) -> AccessState:
        """Admit a producer, or queue it; raise `ProducerBusy` or `ProducerFenced` otherwise.

        While a successor's epoch is being stored, only shared producers may enter; they are
        refused.
        """
        assert self._successor is None or claim.mode is Mode.SHARED
        return ENTRANCES[claim.mode](self, producer, claim)

    def _share(self, producer: T, claim: Claim) -> AccessState:
        self.check_shared()
        self._inside[producer] = None
        return AccessState.SHARED

    def _exclude(self, producer: T, claim: Claim) -> AccessState:
        if self._taken:
            raise ProducerFenced(
                f"{self._where} has an exclusive producer, or one that waits to be"
            )
        # Fenced, and not busy: a client that is busy tries again, and this one asked to be alone.
        if self._inside:
            raise ProducerFenced(f"{self._where} has shared producers: close them first")
        return self._succeed(producer, claim)

    def _wait(self, producer: T, claim: Claim) -> AccessState:
        self._check_epoch(claim)
        # Behind those that wait already, even if the topic has become free just now.
        if self._taken or self._inside:
            self._waiting[producer] = claim
            return AccessState.WAITING
        return self._succeed(producer, claim)

    def _succeed(self, producer: T, claim: Claim) -> AccessState:
        self._check_epoch(claim)
        self._successor = producer
        return AccessState.SUCCESSOR

    def _check_epoch(self, claim: Claim) -> None:
        # Equal is allowed: the same producer, over a new connection.
        if claim.epoch is not None and not self._current <= claim.epoch < MAX_EPOCH:
            raise ProducerFenced(
                f"another exclusive producer took {self._where} over: "
                f"its epoch is {self.epoch}, not {claim.epoch}"
            )

    @property
    def _taken(self) -> bool:
        # promise[without or bool(self._waiting)]: who waits goes before those that come later
        return self.exclusive or self._successor is not None or bool(self._waiting)

    @property
    def _current(self) -> int:
        return -1 if self.epoch is None else self.epoch

    def epoch_for(self, claim: Claim) -> int:
        """Return the epoch of a successor; `ProducerFenced` if a later one is in effect already."""
        self._check_epoch(claim)
        # A producer that reconnects keeps its epoch, so that it is not taken for a rival of itself.
        return self._current + 1 if claim.epoch is None else claim.epoch

    def take_over(self, producer: T, claim: Claim) -> list[T]:
        """Admit the successor, whose epoch is stored; return the producers that it fences off."""
        assert self._successor is producer
        self.epoch = self.epoch_for(claim)
        fenced = [*self._inside, *self._waiting] if claim.mode is Mode.FENCING else []
        if fenced:
            # Those that wait are fenced, too: their clients asked before the one that took over.
            self._waiting.clear()
        self._inside = {producer: None}
        self._successor = None
        self.exclusive = True
        return fenced

    def leave(self, producer: T) -> None:
        """Remove a producer, a successor or a waiting one; harmless for any other."""
        self._inside.pop(producer, None)
        self._waiting.pop(producer, None)
        if self._successor is producer:
            self._successor = None
        # The exclusive producer has left; a topic is not exclusive without one.
        if not self._inside:
            self.exclusive = False

    def next_successor(self) -> T | None:
        """Return the first waiting producer as successor if the topic is free; follows `leave`."""
        if self._inside or self._successor is not None or not self._waiting:
            return None
        # First come, first served.
        producer = self._successor = next(iter(self._waiting))
        del self._waiting[producer]
        return producer


ENTRANCES: dict[Mode, Callable[..., AccessState]] = {
    Mode.SHARED: Access._share,
    Mode.EXCLUSIVE: Access._exclude,
    Mode.WAITING: Access._wait,
    Mode.FENCING: Access._succeed,
}


SHARED = Claim()
"""The default access mode."""
