"""What of a broker is killed or paused, and how it comes back."""

import os
import random
import re
import select
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import count

import psutil

from admin_http import Admin
from crash.lives import BUNDLES, Lives, WorkersLives
from crash.owners import owner_of
from magnetar_proto.names import TopicName
from raw_client import Closed, RawClient
from running_broker import RunningBroker

END_SECONDS = 300.0
"""Until a process has ended that was killed, or asked to stop."""
START_SECONDS = 300.0
RETRY_SECONDS = 0.02
PAUSED = 0.15
"""How often a process is paused instead of killed."""
PAUSE_SECONDS = (0.2, 4.0)
CONTROLLER = "controller"
DONE = 204
REFUSED = "is in use by process"
"""Part of the error of a start while another broker has the data directory."""

PROBES = [
    next(
        topic
        for topic in (f"persistent://public/default/probe-{number}" for number in count())
        if WorkersLives.bundles.index_of(TopicName.parse(topic)) == index
    )
    for index in range(BUNDLES)
]
"""The name of a topic of each bundle."""


class Trouble(Exception):
    """The broker does what it must not."""


def owners_of_probes(broker: RunningBroker) -> list[int]:
    """The number of the worker that owns each bundle; `Trouble` if they cannot be found."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with RawClient(broker.port) as client:
                return [owner_of(client, topic) for topic in PROBES]
        except (Closed, OSError) as error:
            if time.monotonic() > deadline:
                raise Trouble(f"topics cannot be looked up: {error}") from error
            time.sleep(RETRY_SECONDS)


def pids_of(broker: RunningBroker) -> dict[str, int]:
    """The processes of a broker besides its supervisor, by name, as it has logged them."""
    found = re.findall(r"(controller|worker-\d+) is process (\d+)", broker.log)
    # The log has those of earlier starts, too, which may have had more workers.
    present = {child.pid for child in psutil.Process(broker.pid).children()}
    return {name: int(pid) for name, pid in found if int(pid) in present}


class Processes:
    """Processes that are about to end; `close` in any case."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._fds = {pid: os.pidfd_open(pid) for pid in pids}

    def await_end(self, seconds: float = END_SECONDS) -> None:
        """Return when all have ended."""
        deadline = time.monotonic() + seconds
        for pid, fd in self._fds.items():
            if not self._has_ended(fd, max(0.0, deadline - time.monotonic())):
                raise Trouble(f"process {pid} does not end")

    def alive(self) -> list[int]:
        """Those that have not ended."""
        return [pid for pid, fd in self._fds.items() if not self._has_ended(fd, 0)]

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)

    @staticmethod
    def _has_ended(fd: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


class Victim(ABC):
    """`strike` once, in any thread; then `recover` once."""

    starts_anew = False
    """Whether `recover` starts the broker as users do, so that its settings may have changed."""

    def __init__(self, broker: RunningBroker, lives: WorkersLives, dice: random.Random) -> None:
        self.broker = broker
        self.lives = lives
        self.dice = dice

    def __str__(self) -> str:
        return type(self).__name__

    @abstractmethod
    def strike(self) -> None:
        """Do it; returns at once."""

    @abstractmethod
    def recover(self) -> None:
        """Return when the broker serves all topics again."""

    @property
    def ended(self) -> list[Lives]:
        """The lives that it ends."""
        return self.lives.all()

    def _end_lives(self) -> None:
        for one in self.ended:
            one.killed()

    def _begin_lives(self, begin: Callable[[], None]) -> None:
        for one in self.ended:
            one.starting()
        begin()
        for one in self.ended:
            one.started()

    def _await_worker(self, number: int) -> None:
        """Return when a worker serves clients."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                RawClient(self.broker.port, process=f"worker-{number}:{self.broker.port}").close()
            except (Closed, OSError):
                time.sleep(RETRY_SECONDS)
            else:
                return
        raise Trouble(f"worker {number} is not back")


class WholeBroker(Victim):
    """All processes at once."""

    starts_anew = True

    def strike(self) -> None:
        self._end_lives()
        os.killpg(self.broker.pid, signal.SIGKILL)

    def recover(self) -> None:
        self.broker.kill()
        self._begin_lives(self._start)

    def _start(self) -> None:
        self.broker.start()


class Worker(Victim):
    """One worker: the clients of the others notice nothing."""

    def __init__(self, broker: RunningBroker, lives: WorkersLives, dice: random.Random) -> None:
        super().__init__(broker, lives, dice)
        self.number = dice.randrange(lives.workers)
        self._ended: list[Lives] = []

    @property
    def ended(self) -> list[Lives]:
        return self._ended

    def strike(self) -> None:
        pid = pids_of(self.broker)[f"worker-{self.number}"]
        self._process = Processes([pid])
        with self.lives.unchanged():
            self._ended = self.lives.of_worker(self.number)
            self._end_lives()
            self.lives.relay_killed(self.number)
            os.kill(pid, signal.SIGKILL)

    def recover(self) -> None:
        self._process.await_end()
        self._process.close()
        self._begin_lives(lambda: self._await_worker(self.number))


class Controller(Victim):
    """The controller: the workers serve their topics, and clients of these notice nothing."""

    @property
    def ended(self) -> list[Lives]:
        return []

    def strike(self) -> None:
        pid = pids_of(self.broker)[CONTROLLER]
        self._process = Processes([pid])
        with self.lives.unchanged():
            # The next controller may complete the move of a bundle that is moving now.
            self._moving = self.lives.moving()
            for bundle in self._moving:
                self.lives.move_begins(bundle, *self.lives.owners_of(bundle))
            os.kill(pid, signal.SIGKILL)

    def recover(self) -> None:
        self._process.await_end()
        self._process.close()
        owners = owners_of_probes(self.broker)  # answered by the next one
        for bundle in self._moving:
            # Asked once more, it is answered when all topics are where they belong.
            path = f"namespaces/public/default/{self.lives.bundles.ranges[bundle]}/unload"
            path += f"?destinationBroker=worker-{owners[bundle]}"
            while Admin(self.broker).put(path).status != DONE:
                time.sleep(RETRY_SECONDS)
            self.lives.move_ends(bundle, owners[bundle])


class Supervisor(Victim):
    """The process that the user started, alone: all others stop by themselves, and a start before
    they have ended is refused."""

    starts_anew = True

    def strike(self) -> None:
        self._others = Processes(pids_of(self.broker).values())
        self._end_lives()
        os.kill(self.broker.pid, signal.SIGKILL)

    def recover(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.broker.try_start():
            log = self.broker.log_of_start
            if REFUSED not in log or time.monotonic() > deadline:
                raise Trouble(f"the broker does not start: {log}")
        if alive := self._others.alive():
            raise Trouble(f"the broker has started while {alive} of the one before it live")
        self._others.close()
        self._end_lives()  # once more: what was sent while they stopped may have been stored
        self._begin_lives(lambda: None)


class Pause(Victim):
    """One process, for some time; no connection ends, and nothing is lost."""

    def __init__(
        self, broker: RunningBroker, lives: WorkersLives, dice: random.Random, name: str
    ) -> None:
        super().__init__(broker, lives, dice)
        self._name = name

    def __str__(self) -> str:
        return f"Pause of {self._name}"

    def strike(self) -> None:
        self._pid = pids_of(self.broker)[self._name]
        os.kill(self._pid, signal.SIGSTOP)

    def recover(self) -> None:
        time.sleep(self.dice.uniform(*PAUSE_SECONDS))
        os.kill(self._pid, signal.SIGCONT)


def some_victim(broker: RunningBroker, lives: WorkersLives, dice: random.Random) -> Victim:
    """Any, of those that the broker has."""
    if lives.workers == 1:
        return WholeBroker(broker, lives, dice)
    if dice.random() < PAUSED:
        names = (CONTROLLER, *(f"worker-{number}" for number in range(lives.workers)))
        return Pause(broker, lives, dice, dice.choice(names))
    kind = dice.choice((WholeBroker, Worker, Worker, Worker, Controller, Supervisor))
    return kind(broker, lives, dice)
