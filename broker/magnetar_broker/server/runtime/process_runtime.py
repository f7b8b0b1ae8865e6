"""The event loop, threads and phases of one process, for code that opens storage."""

from dataclasses import dataclass
from typing import Protocol

from magnetar_broker.base.runtime import Runtime
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, LoopTasks, ThreadWorkers
from magnetar_broker.server.runtime.phases import Phases


class ProcessRuntime(Runtime, Protocol):
    """A `Runtime` with the threads of the process, and the phases of its start."""

    @property
    def threads(self) -> ThreadWorkers:
        """The threads that wait for disks."""

    @property
    def phases(self) -> Phases:
        """The phases of the start so far."""


@dataclass(frozen=True)
class SoleRuntime:
    """The `ProcessRuntime` of a broker of one process."""

    clock: LoopClock
    tasks: LoopTasks
    threads: ThreadWorkers
    phases: Phases
