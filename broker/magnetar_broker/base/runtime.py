"""The parts of an `Engine` for code that stores nothing."""

from dataclasses import dataclass, field
from typing import Protocol

from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_storage.runtime.execution import Clock, Tasks
from magnetar_storage.space.disk_space import SpaceState


class Runtime(Protocol):
    """The clock, and the runner of concurrent tasks."""

    @property
    def clock(self) -> Clock:
        """The clock: now, timers and promises."""

    @property
    def tasks(self) -> Tasks:
        """The runner of coroutines."""


@dataclass(frozen=True)
class NamesRuntime:
    """The `Runtime` of the directory of names, with its metadata store."""

    metadata: GuardedMetadata
    """Names, policies, schemas, and the records of logs."""
    clock: Clock
    tasks: Tasks
    space: SpaceState = field(default_factory=SpaceState)
    """Whether the disk has room."""
