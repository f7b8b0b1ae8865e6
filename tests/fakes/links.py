"""Two ends of a link, and the stream between them, which the test advances."""

from collections.abc import Callable

from fakes.world import ManualClock, ManualTasks
from magnetar_broker.ipc.link import Link
from magnetar_broker.ipc.metadata import RemoteMetadata
from magnetar_broker.ipc.metadata_server import MetadataServer
from magnetar_storage.interfaces import MetadataStore


class Stream:
    """One direction: it carries what a link writes to the other end, `step` bytes at a time."""

    def __init__(self, clock: ManualClock, step: int) -> None:
        self._clock = clock
        self._step = step
        self._bytes = bytearray()
        self._carrying = False
        self.writes: list[bytes] = []
        self._closing = False
        self.held = False
        """Whether nothing is carried."""
        self.to: Link
        self.joined: Joined

    def write(self, data: bytes, /) -> None:
        self.writes.append(data)
        self._bytes += data
        self.carry()

    def close(self) -> None:
        self._closing = True
        self.carry()

    def carry(self) -> None:
        """Continue to carry, with the next turn."""
        if not self._carrying:
            self._carrying = True
            self._clock.soon(self._carry)

    def _carry(self) -> None:
        self._carrying = False
        if self.held or self.joined.is_cut:
            return
        if not self._bytes:
            if self._closing:
                self.joined.cut()
            return
        piece, self._bytes = self._bytes[: self._step], self._bytes[self._step :]
        self.to.receive(bytes(piece))
        self.carry()


class Joined:
    """A link between two sides of one world."""

    def __init__(self, clock: ManualClock | None = None, step: int = 1 << 20) -> None:
        self.clock = clock or ManualClock()
        self.tasks = ManualTasks(self.clock)
        self.left = Link("the right side", self.clock, self.tasks)
        self.right = Link("the left side", self.clock, self.tasks)
        self.to_right, self.to_left = Stream(self.clock, step), Stream(self.clock, step)
        self.to_right.to, self.to_left.to = self.right, self.left
        self.to_right.joined = self.to_left.joined = self
        self.is_cut = False

    def connect(self) -> "Joined":
        """Let both sides send; call it when both are ready to serve."""
        self.left.connected(self.to_right)
        self.right.connected(self.to_left)
        return self

    def cut(self) -> None:
        """Lose everything in transit in both directions, and the stream."""
        self.is_cut = True
        self.left.lost()
        self.right.lost()


class LinkedMetadata(Joined):
    """A metadata store on the right side of a link, and `remote`, its proxy on the left side."""

    def __init__(
        self,
        store: MetadataStore,
        clock: ManualClock | None = None,
        step: int = 1 << 20,
        may_write: Callable[[str], bool] = lambda key: True,
    ) -> None:
        super().__init__(clock, step)
        self.server = MetadataServer(self.right, store, may_write, self.clock, self.tasks)
        self.remote = RemoteMetadata(self.left, self.clock)
        self.connect()
