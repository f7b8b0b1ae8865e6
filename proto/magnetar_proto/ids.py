"""Message ids and their order; the bitsets of partly acknowledged batches."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.wire import MAX64, to_signed64, to_unsigned64


class MessageId(NamedTuple):
    """Where a message is: ordered by ledger, entry, then index in its batch.

    batch_index is -1 for a whole entry, partition -1 for a topic without partitions.
    """

    ledger: int
    entry: int
    batch_index: int = -1
    partition: int = -1

    @classmethod
    def from_pb(cls, message_id: pb.MessageIdData) -> "MessageId":
        """2**64 - 1 in ledger or entry becomes -1."""
        return cls(
            to_signed64(message_id.ledgerId),
            to_signed64(message_id.entryId),
            message_id.batch_index,
            message_id.partition,
        )

    def text(self) -> str:
        """As Pulsar's tools write it: ledger:entry:partition, and :batch_index if it has one."""
        text = f"{self.ledger}:{self.entry}:{self.partition}"
        return text if self.batch_index < 0 else f"{text}:{self.batch_index}"

    def to_pb(self) -> pb.MessageIdData:
        """Leaves out batch_index and partition where they are -1."""
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
        """Whether this is the end of a topic: by ledger, for C++ keeps 48 bits of an entry id."""
        return self.ledger == LATEST.ledger


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
    """The words of a mask as the signed values that protobuf expects; () when all is acked."""
    words = []
    while mask:
        words.append(to_signed64(mask & MAX64))
        mask >>= 64
    return tuple(words)
