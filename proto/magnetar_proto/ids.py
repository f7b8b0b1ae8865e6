"""Message ids and their order; bitsets of partly acknowledged batches."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.wire import MAX64, to_signed64, to_unsigned64


class MessageId(NamedTuple):
    """The position of a message, ordered by ledger, entry, and index in the batch.

    batch_index is -1 for a whole entry, partition -1 for a topic without partitions.
    """

    ledger: int
    entry: int
    batch_index: int = -1
    partition: int = -1

    @classmethod
    def from_pb(cls, message_id: pb.MessageIdData) -> "MessageId":
        """Convert a MessageIdData; 2**64 - 1 in ledger or entry becomes -1."""
        ledger, entry = to_signed64(message_id.ledgerId), to_signed64(message_id.entryId)
        if message_id.HasField("first_chunk_message_id"):
            first = message_id.first_chunk_message_id
            begins_at = to_signed64(first.ledgerId), to_signed64(first.entryId)
            return ChunkedMessageId(ledger, entry, message_id.partition, begins_at)
        return cls(ledger, entry, message_id.batch_index, message_id.partition)

    @property
    def begins_at(self) -> tuple[int, int]:
        """The ledger and the entry at which the message begins."""
        return self.ledger, self.entry

    def text(self) -> str:
        """Return Pulsar's notation: ledger:entry:partition, and :batch_index if there is one."""
        text = f"{self.ledger}:{self.entry}:{self.partition}"
        return text if self.batch_index < 0 else f"{text}:{self.batch_index}"

    def to_pb(self) -> pb.MessageIdData:
        """Convert to a MessageIdData, without batch_index and partition if they are -1."""
        message_id = pb.MessageIdData(
            ledgerId=to_unsigned64(self.ledger), entryId=to_unsigned64(self.entry)
        )
        if self.batch_index != -1:
            message_id.batch_index = self.batch_index
        if self.partition != -1:
            message_id.partition = self.partition
        return message_id

    @property
    def is_earliest(self) -> bool:
        """Whether this stands for the first message of a topic."""
        return self.ledger == -1 and self.entry == -1

    @property
    def is_latest(self) -> bool:
        """Whether this is the end of a topic; by ledger only: C++ keeps 48 bits of an entry id."""
        return self.ledger == LATEST.ledger


class ChunkedMessageId(MessageId):
    """The id of a message in several entries: the id of the last one, with the first one added.

    It equals the id without the first entry.
    """

    _first: tuple[int, int]

    def __new__(
        cls, ledger: int, entry: int, partition: int, begins_at: tuple[int, int]
    ) -> "ChunkedMessageId":
        self = super().__new__(cls, ledger, entry, -1, partition)
        self._first = begins_at
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkedMessageId, (self.ledger, self.entry, self.partition, self._first)

    @property
    def begins_at(self) -> tuple[int, int]:
        return self._first

    def to_pb(self) -> pb.MessageIdData:
        message_id = super().to_pb()
        first = MessageId(*self._first, -1, self.partition).to_pb()
        message_id.first_chunk_message_id.CopyFrom(first)
        return message_id


EARLIEST: Final = MessageId(-1, -1)
LATEST: Final = MessageId((1 << 63) - 1, (1 << 63) - 1)


def ack_set_to_mask(longs: Iterable[int]) -> int:
    """Join the 64-bit words of an ack set, lowest first, of either sign: bit i is message i.

    A 1 means *not* acknowledged.
    """
    mask = 0
    for index, word in enumerate(longs):
        mask |= (word & MAX64) << (64 * index)
    return mask


def mask_to_ack_set(mask: int) -> tuple[int, ...]:
    """Return the words of a mask as signed values for protobuf; () if all is acknowledged."""
    words = []
    while mask:
        words.append(to_signed64(mask & MAX64))
        mask >>= 64
    return tuple(words)
