"""The parts of an `Engine` that code needs which does not store anything."""

from dataclasses import dataclass, field
from typing import Protocol

from magnetar_storage.interfaces import MetadataStore
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


class MetadataRuntime(Runtime, Protocol):
    """A `Runtime` with the metadata store."""

    @property
    def metadata(self) -> MetadataStore:
        """Names, policies, schemas, and the records of logs."""

    @property
    def space(self) -> SpaceState:
        """Whether the disk has room."""


@dataclass(frozen=True)
class NamesRuntime:
    """The `MetadataRuntime` of a process that stores no messages."""

    metadata: MetadataStore
    clock: Clock
    tasks: Tasks
    space: SpaceState = field(default_factory=SpaceState)
