"""The supervisor: starts the controller and the workers, restarts them, stops all in order.

It has no thread and no event loop, because processes are forked from it for as long as it runs.
"""

import logging
import math
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from magnetar_broker.base.start_failed import StartFailed
from magnetar_broker.server.supervision.children import (
    HANDLED_SIGNALS,
    RELOAD_SIGNAL,
    STOP_SIGNALS,
    Context,
    Run,
    fork,
    name_of,
    state_of,
)
from magnetar_broker.server.supervision.control import (
    CheckFiles,
    Control,
    Drain,
    Drained,
    Failed,
    Lost,
    Message,
    Peer,
    Ready,
    Reloaded,
    Stop,
    Undrain,
    Undrained,
    control_pair,
)
from magnetar_broker.server.supervision.process_liveness import ProcessLiveness

logger = logging.getLogger(__name__)

SHORT_LIFE_SECONDS = 10.0
"""The lifetime, in seconds, below which a process is expected to end early again."""
FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 5.0
CAUSES = {
    "stopped": "what has sent it SIGSTOP",
    "tracing stop": "a debugger",
    "disk sleep": "a disk that does not answer, a lack of memory, or a container that is frozen",
}
"""The likely causes why a process does not run, by its state."""
OTHER_CAUSES = "a lack of CPU, and in magnetar_loop_stretch_seconds for what occupies event loops"
CONTROLLERS = 3
"""The number of controllers that a reload asks for the same, if each ends before its answer."""
HASTE = 2
"""The number of requests to stop from which children are killed instead of waited for."""


@dataclass
class Role:
    """The work of one kind of process, with the bound sockets on which it accepts connections."""

    run: Run
    """The work of the processes that are started from now on."""
    sockets: Sequence[socket.socket] = ()


class Changed(NamedTuple):
    """A configuration that has changed: how processes run with it, and its values."""

    controller: Run
    worker: Run
    values: dict[str, tuple[str, str]]


class Reload(Protocol):
    """The parts of a reload that the supervisor uses."""

    def changed(self) -> Changed | None:
        """Read the configuration again; return None if nothing that a reload changes has changed.

        Errors in the configuration are logged.
        """

    def done(self) -> None:
        """Note that all processes use the configuration that `changed` returned."""


@dataclass
class Pauses:
    """The pauses before a process that ended is started again."""

    short_lives: int = 0

    def after(self, lived_seconds: float) -> float:
        """Return 0 at first and after a long life; more for each short life in succession."""
        self.short_lives = self.short_lives + 1 if lived_seconds < SHORT_LIFE_SECONDS else 0
        doublings = min(self.short_lives - 2, 10)
        if doublings < 0:
            return 0.0
        return min(FIRST_PAUSE_SECONDS * 2.0**doublings, MAX_PAUSE_SECONDS)


@dataclass
class Child:
    """A child process, across all of its starts."""

    worker: int | None
    role: Role
    generation: int = 0
    pid: int | None = None
    """The id of the process; None while it does not run."""
    control: Control = field(init=False)
    ready: bool = False
    failure: str = ""
    """The error that the process reported in this life."""
    exit_code: int = 0
    """The exit code of the last life; the negative number of the signal that ended it."""
    started_at: float = 0.0
    restart_at: float = 0.0
    is_replaced: bool = False
    """Whether the process was asked to stop in order to be started with other settings."""
    pauses: Pauses = field(default_factory=Pauses)

    @property
    def name(self) -> str:
        return name_of(self.worker)

    @property
    def runs(self) -> bool:
        return self.pid is not None

    def kill(self) -> None:
        """Send SIGKILL to the process if it is running."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)

    @property
    def how_it_ended(self) -> str:
        """The exit code or signal, and the error that the process reported, for people."""
        how = f"ended with exit code {self.exit_code}"
        if self.exit_code < 0:
            number = -self.exit_code
            how = f"was ended by signal {number} ({signal.strsignal(number)})"
        return f"{self.name} {how}{': ' if self.failure else ''}{self.failure}"


class Supervisor:
    """Starts, restarts and stops the children.

    Call `run` once, in a process without threads that has imported everything that the children
    need.  A child that ends is started again; workers serve their topics while the controller is.
    """

    def __init__(
        self,
        controller: Role,
        worker: Role,
        workers: int,
        stop_seconds: float,
        silence_seconds: float,
        reload: Reload,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`stop_seconds`: children that have not ended this long after a stop began are killed.

        `silence_seconds`: a child that sends nothing for this long is killed, from its fork to its
        end, and started again as after any other end.

        `clock` is read after every signal that this process handles, and never goes back.
        """
        self._controller = Child(None, controller)
        self._workers = [Child(number, worker) for number in range(workers)]
        self._children = [self._controller, *self._workers]
        self._stop_seconds = stop_seconds
        self._liveness = ProcessLiveness(silence_seconds, clock)
        self._reload = reload
        self._clock = clock
        self._stop_signals = 0
        self._reload_asked = False
        self._answers: set[Drained | Undrained] = set()
        self._serving = False
        self._selector = selectors.DefaultSelector()
        self._signals, self._signals_sender = socket.socketpair()

    def run(self, announce: Callable[[], None]) -> int:
        """Serve until SIGTERM or SIGINT, and return the exit code for this process.

        Calls `announce` when all processes are ready for the first time.  Raises `StartFailed`, or
        the system's error, if they cannot be started then.  No child is left in any case.
        """
        self._handle_signals()
        try:
            self._start()
            if not self._stop_signals:
                announce()
            self._serve()
            logger.info("stopping: the workers first, then the controller")
            return 0 if self._stop("the broker stops") else 1
        finally:
            self._kill()

    def _start(self) -> None:
        """Start all processes; return when all are ready or this process is asked to stop."""
        for child in self._children:
            self._fork(child)
        # promise[all -> any]: the broker is ready when its last worker is
        self._until(
            lambda: (
                self._stop_signals > 0
                or all(child.ready for child in self._children)
                or not all(child.runs for child in self._children)
            )
        )
        if ended := [child for child in self._children if not child.runs]:
            # Without the controller workers fail, too, and it is the first of the children.
            cause = next((c for c in ended if c is self._controller or c.failure), ended[0])
            text = f"{cause.how_it_ended} while the broker started"
            if cause.failure:
                text = f"{cause.name} cannot start: {cause.failure}"
            self._stop("another process could not start")
            raise StartFailed(text)

    def _serve(self) -> None:
        """Keep all processes running until asked to stop."""
        self._serving = True
        while self._serve_until(lambda: self._reload_asked):
            self._reload_asked = False
            self._roll()
        self._serving = False

    @property
    def _goes_on(self) -> bool:
        return not self._stop_signals

    def _serve_until(self, condition: Callable[[], bool], deadline: float = math.inf) -> bool:
        """Serve until the condition holds; False if the broker stops, or the time has come."""
        while self._goes_on and not condition():
            seconds = deadline - self._clock()
            if seconds <= 0:
                return False
            for child in self._children:
                if not child.runs and child.restart_at <= self._clock():
                    self._restart(child)
            due = min((one.restart_at for one in self._children if not one.runs), default=math.inf)
            self._turn(min(due - self._clock(), seconds))
        return self._goes_on

    def _restart(self, child: Child) -> None:
        try:
            self._fork(child)
        except OSError as error:  # the system is short of processes or descriptors
            child.restart_at = self._clock() + MAX_PAUSE_SECONDS
            logger.error("%s cannot be started: %s", child.name, error)
            child.kill()  # if it runs: it lacks connections with others

    def _lose(self, lost: Lost) -> None:
        """End a process of a worker that the controller no longer reaches, if it runs."""
        worker = self._workers[lost.worker]
        # promise[worker.generation == lost.generation -> worker.runs]: a worker that was started
        #   again is not stopped for the one before
        if self._goes_on and worker.runs and worker.generation == lost.generation:
            # promise: a worker serves no topics that the controller lets others load
            self._send(worker, Stop("the controller has closed the link"))

    # A changed configuration ---------------------------------------------------------------

    def _roll(self) -> None:
        """Restart one worker after another with the changed configuration.

        Meanwhile the other workers own its bundles.  If a worker does not start with the changed
        configuration, it and the remaining workers keep the former one.
        """
        for child in self._children:
            if child.runs:
                self._send(child, CheckFiles())
        changed, role = self._reload.changed(), self._workers[0].role
        if changed is None:
            return
        former, role.run = role.run, changed.worker
        # A worker that ends by itself meanwhile is not restarted twice.
        for worker, generation in [(worker, worker.generation) for worker in self._workers]:
            if not self._replace(worker, generation, former):
                role.run = former
                if not self._stop_signals:
                    logger.error(
                        "reload: it stopped at %s; repeat it to give all workers the same settings",
                        worker.name,
                    )
                return
        self._reload.done()
        self._controller.role.run = changed.controller  # should it ever be started again
        self._send(self._controller, Reloaded(changed.values))
        logger.info("reload: all workers have the changed configuration")

    def _replace(self, worker: Child, generation: int, former: Run) -> bool:
        """Restart a worker unless that has happened; return whether the reload continues."""
        assert worker.worker is not None
        # promise[not self._ask(Drain(worker.worker), Drained(worker.worker)) -> False]: a reload
        #   waits until the bundles of a worker have moved
        if not self._ask(Drain(worker.worker), Drained(worker.worker)):
            return False
        if worker.generation == generation:
            self._end_for_replacement(worker)
        # promise[without and (worker.ready or not worker.runs)]: a reload restarts a worker only
        #   when the one before it is ready
        self._serve_until(
            lambda: worker.generation > generation and (worker.ready or not worker.runs)
        )
        starts = worker.ready
        if not starts and self._goes_on:
            logger.error(
                "reload: %s cannot start with the changed configuration, and the former one stays "
                "for every worker that is not restarted yet: %s",
                worker.name,
                worker.how_it_ended,
            )
            worker.role.run = former  # promise: a worker that cannot start changed runs as before
            self._serve_until(lambda: worker.ready)
        # Another controller does not know which bundles the worker had: they stay where they are,
        # and are balanced as usual.
        return self._ask(Undrain(worker.worker), Undrained(worker.worker)) and starts

    def _ask(self, question: Drain | Undrain, answer: Drained | Undrained) -> bool:
        """Ask the controller, and the next one if it ends; return whether one has answered."""
        generation = 0

        def is_over() -> bool:
            controller = self._controller
            return (
                answer in self._answers or controller.generation > generation or not controller.runs
            )

        self._answers.discard(answer)
        for _ in range(CONTROLLERS):
            if not self._serve_until(lambda: self._controller.ready):
                return False
            generation = self._controller.generation
            self._send(self._controller, question)
            self._serve_until(is_over)
            if answer in self._answers:
                return True
        return False

    def _end_for_replacement(self, worker: Child) -> None:
        """Ask a worker to stop; return when its next process runs.  Kill it if it does not stop."""
        generation, deadline = worker.generation, self._clock() + self._stop_seconds
        worker.is_replaced = True
        self._send(worker, Stop("it is restarted with a changed configuration"))
        self._serve_until(lambda: worker.generation > generation, deadline)
        if worker.generation == generation and self._goes_on:
            logger.error(
                "reload: %s has not stopped within %.0f ms (brokerShutdownTimeoutMs), and is "
                "killed; its next process recovers from the journal",
                worker.name,
                self._stop_seconds * 1000,
            )
            worker.kill()

    def _stop(self, reason: str) -> bool:
        """Stop the workers, then the controller; return whether all ended in order and in time."""
        deadline = self._clock() + self._stop_seconds
        stopped = [child for child in self._children if child.runs]
        self._stop_together(self._workers, reason, deadline)
        self._stop_together([self._controller], reason, deadline)
        if late := [child.name for child in stopped if child.runs]:
            logger.error(
                "%s: killing %s; the next start recovers from the journal",
                f"the stop took longer than {self._stop_seconds * 1000:.0f} ms "
                "(brokerShutdownTimeoutMs)"
                if self._stop_signals < HASTE
                else "asked to stop a second time",
                ", ".join(late),
            )
            self._kill()
        failed = [child for child in stopped if child.exit_code]
        for child in failed:
            logger.error("%s", child.how_it_ended)
        return not failed

    def _stop_together(self, children: list[Child], reason: str, deadline: float) -> None:
        for child in children:
            if child.runs:
                self._send(child, Stop(reason))
        # promise[without deadline,]: a stop ends with its deadline
        self._until(
            lambda: self._stop_signals >= HASTE or not any(child.runs for child in children),
            deadline,
        )

    def _kill(self) -> None:
        """Kill the remaining children, and wait until they have ended."""
        for child in self._children:
            if child.pid is not None:
                child.kill()
                self._ended(child, os.waitpid(child.pid, 0)[1])

    # One process -------------------------------------------------------------------------

    def _fork(self, child: Child) -> None:
        """Start a process, and connect it with all other running processes."""
        child.control, theirs = control_pair()
        child.generation += 1
        child.ready, child.failure, child.is_replaced = False, "", False
        child.started_at = self._clock()
        context = Context(
            child.worker,
            len(self._workers),
            child.generation,
            child.started_at,
            self._liveness.report_seconds,
            theirs,
            child.role.sockets,
        )
        child.pid = fork(context, child.role.run, partial(self._release, child))
        self._liveness.begin(child.name)
        theirs.close()
        self._selector.register(child.control, selectors.EVENT_READ, partial(self._receive, child))
        logger.info("%s is process %d", child.name, child.pid)
        for other in self._children:
            # promise[runs -> runs and child.generation == 1]: a worker that is started again is
            #   connected to the others
            if other is not child and other.runs:
                self._connect(child, other)

    def _release(self, own: Child) -> None:
        """Close, in a new child, the descriptors of this process and of the other children."""
        self._selector.close()
        self._signals.close()
        self._signals_sender.close()
        for child in self._children:
            # promise[without or child.runs]: processes do not keep each other alive
            if child is own or child.runs:
                child.control.close()
            if child.role is not own.role:
                for listening in child.role.sockets:
                    listening.close()

    def _connect(self, one: Child, other: Child) -> None:
        """Give two processes the two ends of a new pair of sockets."""
        with ExitStack() as copies:  # the processes have their own
            link, there, back = (_pair(copies) for _ in range(3))
            if self._controller in (one, other):
                to_one = Peer(other.worker, other.generation, link[0])
                to_other = Peer(one.worker, one.generation, link[1])
            else:
                to_one = Peer(other.worker, other.generation, link[0], there[0], back[1])
                to_other = Peer(one.worker, one.generation, link[1], back[0], there[1])
            self._send(one, to_one)
            self._send(other, to_other)

    def _send(self, child: Child, message: Message) -> None:
        try:
            child.control.send(message)
        except ConnectionError:
            pass  # the child has ended; its signal follows
        except OSError as error:
            logger.error(
                "%s reads no messages of the supervisor, and is killed: %s", child.name, error
            )
            child.kill()

    def _receive(self, child: Child) -> bool:
        """Take a child's messages; return False if there are none, or its end is closed."""
        messages = child.control.receive()
        for message in messages:
            match message:
                case Ready():
                    child.ready = True
                    logger.info("%s is ready", child.name)
                case Drained() | Undrained():
                    self._answers.add(message)
                case Lost():
                    self._lose(message)
                case Failed(text):
                    child.failure = text
                case Stop():
                    self._disconnect(child)
                    return False
            self._liveness.reported(child.name)
        return bool(messages)

    def _disconnect(self, child: Child) -> None:
        with suppress(KeyError):  # it was the first to close its end
            self._selector.unregister(child.control)

    def _ended(self, child: Child, status: int) -> None:
        while self._receive(child):
            pass  # take what it sent before it ended
        self._disconnect(child)
        self._liveness.end(child.name)
        child.control.close()
        child.pid, child.exit_code = None, os.waitstatus_to_exitcode(status)
        child.ready = False
        if child.is_replaced and not child.exit_code:
            child.restart_at = 0.0
            logger.info("%s has ended, and is started with the changed configuration", child.name)
        elif self._serving:
            now = self._clock()
            pause = child.pauses.after(now - child.started_at)
            child.restart_at = now + pause
            logger.error(
                "%s; starting it again%s",
                child.how_it_ended,
                f" in {pause:.1f} s" if pause else "",
            )

    def _expire(self, child: Child) -> None:
        """Kill a child that has been silent for the timeout.

        Even if it continues at this moment, it can no longer acknowledge or delete anything, and
        its next process is started only after the system has reported its end.
        """
        while self._receive(child):
            pass  # take what it sent while this process did not run
        if child.pid is None or not self._liveness.has_expired(child.name):
            return
        seconds, state = self._liveness.silence(child.name), state_of(child.pid)
        self._liveness.end(child.name)
        child.failure = f"its event loop had not run for {seconds:.1f} s"
        logger.error(
            "%s (process %d) is killed: its event loop has not run for %.1f s "
            "(metadataStoreSessionTimeoutMillis=%.0f). The state of the process is: %s. Look for "
            "%s",
            child.name,
            child.pid,
            seconds,
            self._liveness.timeout_seconds * 1000,
            state,
            CAUSES.get(state, OTHER_CAUSES),
        )
        child.kill()  # promise: a process that hangs is killed

    # Events ------------------------------------------------------------------------------

    def _handle_signals(self) -> None:
        """Turn signals into bytes that the selector sees."""
        for end in (self._signals, self._signals_sender):
            end.setblocking(False)
        signal.set_wakeup_fd(self._signals_sender.fileno(), warn_on_full_buffer=False)
        for number in HANDLED_SIGNALS:
            signal.signal(number, lambda *_: None)
        self._selector.register(self._signals, selectors.EVENT_READ, self._take_signals)

    def _take_signals(self) -> None:
        numbers = self._signals.recv(4096)
        # Several in one read are one request: a terminal's Ctrl-C can arrive twice.
        self._stop_signals += any(number in STOP_SIGNALS for number in numbers)
        self._reload_asked |= RELOAD_SIGNAL in numbers

    def _until(self, condition: Callable[[], bool], deadline: float = math.inf) -> bool:
        """Handle events until the condition holds; return False if the deadline passes first."""
        while not condition():
            seconds = deadline - self._clock()
            if seconds <= 0:
                return False
            self._turn(seconds)
        return True

    def _turn(self, seconds: float) -> None:
        """Wait for events, at most `seconds`, and handle them."""
        events = self._selector.select(min(seconds, self._liveness.report_seconds))
        self._liveness.advance()
        for key, _ in events:
            key.data()
        for child in self._children:
            if child.pid is not None:
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    self._ended(child, status)
            if self._liveness.has_expired(child.name):
                self._expire(child)


def _pair(owner: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, which the owner closes."""
    one, other = socket.socketpair()
    return owner.enter_context(one), owner.enter_context(other)
