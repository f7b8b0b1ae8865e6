"""Who may publish to a topic: everybody, or one producer at a time.

A topic that had an exclusive producer has an epoch, which grows with every one.  It outlives the
broker: who comes back with an older one has been replaced meanwhile.  Pure: the epoch that
`enter` gives is stored by the caller, and only then does `take_over` make it true.
"""

from collections.abc import Callable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from magnetar_broker.errors import ProducerBusy, ProducerFenced
from magnetar_proto import PulsarApi_pb2 as pb

T = TypeVar("T")
MAX_EPOCH = 1 << 62
"""No topic gets there: a client that says so means something else, such as -1."""


class Mode(Enum):
    """What a producer asks for, by the protocol's numbers."""

    SHARED = pb.Shared
    EXCLUSIVE = pb.Exclusive
    WAITING = pb.WaitForExclusive
    FENCING = pb.ExclusiveWithFencing


class Claim(NamedTuple):
    """What a producer asks for, and the epoch that it had before, if it had one."""

    mode: Mode = Mode.SHARED
    epoch: int | None = None


class Place(Enum):
    """What a producer got."""

    SHARED = "shared"
    """It is in."""
    HEIR = "heir"
    """It is to be the only one, once its epoch is stored: `take_over` or `leave` follows."""
    WAITING = "waiting"
    """It will be an heir when its turn comes: `next_heir` names it."""


class Access(Generic[T]):
    """The producers of one topic.  `where` is told who they are, in refusals."""

    def __init__(self, epoch: int | None, where: str) -> None:
        self.epoch = epoch
        """That of the latest exclusive producer; None if there never was one."""
        self.exclusive = False
        """Whether the one who is in is the only one that may be."""
        self._where = where
        self._inside: dict[T, None] = {}
        self._heir: T | None = None
        self._waiting: dict[T, Claim] = {}

    def __contains__(self, who: T) -> bool:
        return who in self._inside

    @property
    def waiting(self) -> list[T]:
        """Those that wait, in their order."""
        return list(self._waiting)

    def check_shared(self) -> None:
        """`ProducerBusy` unless one may share the topic."""
        if self._taken:
            raise ProducerBusy(f"{self._where} has an exclusive producer, or one that waits")

    def enter(self, who: T, claim: Claim) -> Place:
        """Let a producer in, or have it wait; `ProducerBusy` or `ProducerFenced` if neither.

        While there is an heir nobody but shared producers may ask, and those are refused.
        """
        assert self._heir is None or claim.mode is Mode.SHARED
        return ENTRANCES[claim.mode](self, who, claim)

    def _share(self, who: T, claim: Claim) -> Place:
        self.check_shared()
        self._inside[who] = None
        return Place.SHARED

    def _exclude(self, who: T, claim: Claim) -> Place:
        if self._taken:
            raise ProducerFenced(f"{self._where} has an exclusive producer, or one that waits")
        if self._inside:
            raise ProducerFenced(f"{self._where} has producers that share it")
        return self._inherit(who, claim)

    def _wait(self, who: T, claim: Claim) -> Place:
        self._check_epoch(claim)
        if self._taken or self._inside:
            self._waiting[who] = claim
            return Place.WAITING
        return self._inherit(who, claim)

    def _inherit(self, who: T, claim: Claim) -> Place:
        self._check_epoch(claim)
        self._heir = who
        return Place.HEIR

    def _check_epoch(self, claim: Claim) -> None:
        if claim.epoch is not None and not self._current <= claim.epoch < MAX_EPOCH:
            raise ProducerFenced(
                f"{self._where} has had another exclusive producer since: "
                f"its epoch is {self.epoch}, not {claim.epoch}"
            )

    @property
    def _taken(self) -> bool:
        return self.exclusive or self._heir is not None or bool(self._waiting)

    @property
    def _current(self) -> int:
        return -1 if self.epoch is None else self.epoch

    def epoch_for(self, claim: Claim) -> int:
        """The epoch that an heir's time will have; `ProducerFenced` if it is over already."""
        self._check_epoch(claim)
        return self._current + 1 if claim.epoch is None else claim.epoch

    def take_over(self, who: T, claim: Claim) -> list[T]:
        """The heir is in, its epoch is stored; returns who has to go: all others, if it fences."""
        assert self._heir is who
        self.epoch = self.epoch_for(claim)
        fenced = [*self._inside, *self._waiting] if claim.mode is Mode.FENCING else []
        if fenced:
            self._waiting.clear()
        self._inside = {who: None}
        self._heir = None
        self.exclusive = True
        return fenced

    def leave(self, who: T) -> None:
        """A producer, an heir or one that waits is gone; harmless if it is not there."""
        self._inside.pop(who, None)
        self._waiting.pop(who, None)
        if self._heir is who:
            self._heir = None
        if not self._inside:
            self.exclusive = False

    def next_heir(self) -> T | None:
        """Make the first one that waits the heir, if the topic is free; call when somebody left."""
        if self._inside or self._heir is not None or not self._waiting:
            return None
        who = self._heir = next(iter(self._waiting))
        del self._waiting[who]
        return who


ENTRANCES: dict[Mode, Callable[..., Place]] = {
    Mode.SHARED: Access._share,
    Mode.EXCLUSIVE: Access._exclude,
    Mode.WAITING: Access._wait,
    Mode.FENCING: Access._inherit,
}


SHARED = Claim()
"""What nearly every producer asks for."""
