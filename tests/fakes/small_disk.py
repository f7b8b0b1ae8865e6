"""A `LocalStore` on a small disk that is watched, and is shared with another program."""

from fakes.faulty_disk import FaultyDisk, Survives
from fakes.local_store import TINY, Machine
from magnetar_storage.local.limits import fitting
from magnetar_storage.local.store import LocalStore
from magnetar_storage.space.disk_space import LOOK_SECONDS, DiskSpace
from magnetar_storage.space.free_limit import FreeLimit
from magnetar_storage.space.reserve import STORE_FILE, Reserve

CAPACITY = 400_000
FILLER = "other/program"


class SmallMachine(Machine):
    """A machine whose disk can be full; `space` watches it while the store is open."""

    def __init__(self, capacity: int = CAPACITY, limit: FreeLimit | None = None) -> None:
        self.logged: list[tuple[bool, str]] = []
        self.limit = FreeLimit() if limit is None else limit
        disk = FaultyDisk()
        disk.capacity = capacity
        super().__init__(disk, fitting(TINY, capacity, 1))

    def open(self) -> LocalStore:
        self._start()
        self.writers = {}
        self.space = DiskSpace(
            self.disk, "/data", self.limit, Reserve(self.disk, STORE_FILE), None,
            self.workers.reads, self.clock, lambda *state: self.logged.append(state),
        )  # fmt: skip
        self.do(self.space.look())
        self.space.start()
        self.store = self.do(
            LocalStore.open(self.disk, self.workers, self.clock, self.limits, space=self.space)
        )
        return self.store

    @property
    def free(self) -> int:
        return self.disk.space().free

    @property
    def holds_reserve(self) -> bool:
        return self.disk.sizes("").get(STORE_FILE, 0) > 0

    def fill(self, left: int = 0) -> None:
        """Let another program take all but `left` free bytes."""
        before = self.disk.sizes("other").get("program", 0)
        file = self.disk.open(FILLER, create=True)
        file.truncate(max(0, before + self.free - left))
        file.sync()
        file.close()

    def crash(self, survives: Survives) -> None:
        """Cut the power of the machine.

        Removed files may be back: the other program then does not get their room.
        """
        self.disk.crash(survives)
        program = self.disk.sizes("other").get("program", 0)
        others = sum(len(self.disk.content(name)) for name in self.disk.names()) - program
        assert self.disk.capacity is not None
        if program and others + program > self.disk.capacity:
            file = self.disk.open(FILLER)
            file.truncate(max(0, self.disk.capacity - others))
            file.sync()
            file.close()

    def empty(self) -> None:
        """Remove the other program's file."""
        self.disk.remove(FILLER)

    def look(self) -> None:
        """Advance to the next check of the disk."""
        self.clock.advance(LOOK_SECONDS)
        self.pump()
