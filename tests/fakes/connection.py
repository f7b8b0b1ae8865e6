"""A client's connection that decodes and records the frames sent to it."""

from collections.abc import Callable
from typing import NamedTuple

from fakes.world import ManualPromise
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.deliveries import decode_message
from magnetar_proto.frames import FrameDecoder
from magnetar_proto.sends import decode_receipt
from magnetar_storage.log.damage import Damage


class Got(NamedTuple):
    """A MESSAGE as the client decodes it."""

    consumer_id: int
    ledger: int
    entry: int
    partition: int
    redelivery_count: int
    ack_set: tuple[int, ...]
    epoch: int | None
    payload: bytes


class Receipt(NamedTuple):
    """A SEND_RECEIPT as the client decodes it."""

    producer_id: int
    sequence_id: int
    highest_id: int
    ledger: int
    entry: int


class RecordingConnection:
    """Implements `magnetar_broker.base.connection.Connection`; the test sets `room` and `alive`."""

    def __init__(self, address: str = "10.0.0.1:4711") -> None:
        self.address = address
        self.client_version = "Fake-1.0"
        self.app_id: str | None = None
        self.takes_broker_metadata = False
        self.room = True
        self.alive = True
        self.answer: ManualPromise | None = None
        """If set, a PING is answered only once this is settled."""
        self.pings = 0
        self.messages: list[Got] = []
        self.receipts: list[Receipt] = []
        self.closed_producers: list[int] = []
        self.dropped_producers: list[int] = []
        self.closed_consumers: list[int] = []
        self.new_owners: list[str] = []
        """The URLs to which clients were told to reconnect, in the order of the closed objects."""
        self.active: list[tuple[int, bool]] = []
        self.damage: list[tuple[int, Damage]] = []
        """The consumers that were told of damage at which delivery stops."""
        self.ended: list[int] = []
        """The consumers that were told of the end of their topic."""
        self.holds = 0
        """The number of reasons not to read from the connection."""
        self.published_entries = self.published_bytes = 0
        self._decoder = FrameDecoder(1 << 24)

    def has_room(self) -> bool:
        return self.room

    def send(self, frames: bytes) -> None:
        for kind, buf, start, mid, payload in self._decoder.feed(frames):
            if kind == pb.BaseCommand.MESSAGE:
                self.messages.append(Got(*decode_message(buf, start, mid), payload))
            else:
                assert kind == pb.BaseCommand.SEND_RECEIPT
                self.receipts.append(Receipt(*decode_receipt(buf, start, mid)))
        assert self._decoder.error is None

    def send_all(self, buffers: list[bytes], size: int) -> None:
        assert size > 0
        self.send(b"".join(buffers))

    def release_pending(self, entries: int, size: int) -> None:
        self.published_entries += entries
        self.published_bytes += size

    def reached_end(self, consumer_id: int) -> None:
        self.ended.append(consumer_id)

    def hold_reading(self) -> Callable[[], None]:
        self.holds += 1
        return self._release

    def _release(self) -> None:
        self.holds -= 1

    async def is_alive(self) -> bool:
        self.pings += 1
        if self.answer is not None:
            await self.answer
        return self.alive

    def active_changed(self, consumer_id: int, is_active: bool) -> None:
        self.active.append((consumer_id, is_active))

    def damaged(self, consumer_id: int, partition: int, damage: Damage) -> None:
        self.damage.append((consumer_id, damage))

    def close_producer(self, producer_id: int, new_owner: str = "") -> None:
        self.closed_producers.append(producer_id)
        self.new_owners.append(new_owner)

    def drop_producer(self, producer_id: int) -> None:
        self.dropped_producers.append(producer_id)

    def close_consumer(self, consumer_id: int, new_owner: str = "") -> None:
        self.closed_consumers.append(consumer_id)
        self.new_owners.append(new_owner)

    def take(self, consumer_id: int | None = None) -> list[Got]:
        """Return the messages since the last call, of one consumer or of all."""
        taken = [m for m in self.messages if consumer_id in (None, m.consumer_id)]
        rest = [] if consumer_id is None else self.messages
        self.messages = [m for m in rest if m.consumer_id != consumer_id]
        return taken
