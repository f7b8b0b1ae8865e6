"""Child processes: how they are forked, and the state in which they begin."""

import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import NoReturn

from magnetar_broker.config.load import ConfigError
from magnetar_broker.server.runtime.logs import log_to_stderr
from magnetar_broker.server.supervision.control import Control, Failed
from magnetar_storage.errors import StorageError

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""The signals that ask the supervisor to stop.  Children ignore them, because a terminal and a
service manager send them to every process at once, and the supervisor asks the children in
order."""
RELOAD_SIGNAL = signal.SIGHUP
"""The signal that asks the supervisor to read the configuration again.  Children ignore it, too:
the end of a terminal sends it to every process."""
HANDLED_SIGNALS = (*STOP_SIGNALS, RELOAD_SIGNAL, signal.SIGCHLD)
"""The signals that the supervisor handles."""
STATE = re.compile(r"^State:.*\((.+)\)$", re.MULTILINE)
"""The line of /proc/PID/status with the state of a process."""
EXPECTED_ERRORS = (ConfigError, StorageError, OSError)
"""Errors whose text tells a person enough; others are defects, and logged with a traceback."""


@dataclass(frozen=True)
class Context:
    """The state in which a child process begins.  It has no event loop and no thread, and the
    garbage collector is in the state that the supervisor left it in."""

    worker: int | None
    """The number of this worker, from 0; None is the controller."""
    workers: int
    """The number of workers."""
    generation: int
    """The number of starts of this process, the present one included."""
    began_at: float
    """The monotonic time at which the start of the process began."""
    report_seconds: float
    """The interval, in seconds, at which the child reports that it runs."""
    control: Control
    """The socket to the supervisor. It brings `Stop`, and a `Peer` whenever another process starts;
    the child sends `Ready` when it serves, and `Alive` all the time.
    """
    sockets: Sequence[socket]
    """Bound sockets to accept connections from, shared with the processes that do the same work;
    they queue connections from the first `listen` on, whichever process calls it."""

    @property
    def name(self) -> str:
        return name_of(self.worker)


Run = Callable[[Context], None]
"""The work of a process: returns after `Stop`; an error that it raises ends the process."""


def name_of(worker: int | None) -> str:
    """Return the name of a process in logs."""
    return "controller" if worker is None else f"worker-{worker}"


def state_of(pid: int) -> str:
    """Return the system's state of a process, such as "stopped"; "unknown" without /proc."""
    with suppress(OSError):
        found = STATE.search(Path(f"/proc/{pid}/status").read_text())
        if found is not None:
            return found[1]
    return "unknown"


def fork(context: Context, run: Run, release: Callable[[], None]) -> int:
    """Fork a process that calls `run`, and return its id.

    The child first calls `release`, which closes what belongs to other processes.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal that comes between the fork and the new handlers must not reach the child's copy of
    # the supervisor's wakeup descriptor.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            _live(context, run, release, before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _live(
    context: Context, run: Run, release: Callable[[], None], mask: set[signal.Signals | int]
) -> NoReturn:
    """Live the whole life of the child; the frames below are the supervisor's and never go on."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (*STOP_SIGNALS, RELOAD_SIGNAL):
            # promise[SIG_IGN -> SIG_DFL]: a terminal's Ctrl-C reaches the supervisor only
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        log_to_stderr(context.name)
        code = _exit_code(context, run, release)
    finally:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _exit_code(context: Context, run: Run, release: Callable[[], None]) -> int:
    """Return 0 if `run` returns, else 1, with the error sent to the supervisor."""
    try:
        release()
        run(context)
    except BaseException as error:  # whatever it is: nobody sees it after this
        text = str(error)
        if not isinstance(error, EXPECTED_ERRORS):
            logger.exception("the process ends because of an error; this is a defect")
            text = f"{type(error).__name__}: {error}"
        with suppress(OSError):  # nobody listens any more
            context.control.send(Failed(text))
        return 1
    return 0
