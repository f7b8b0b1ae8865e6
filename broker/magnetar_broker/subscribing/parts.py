"""Parts of batches, as masks: a 1 is a message that is not acknowledged.

How many messages a batch has is what its producer claims.  One that claims more than fit into it
has no parts: it is acknowledged, skipped and sought as a whole.
"""

from magnetar_proto.ids import ack_set_to_mask
from magnetar_storage.log import Log

MOST_MESSAGES = 1 << 20
"""More than fit into a batch of the largest size by default, of at least 6 bytes each; compressed
it may have fewer bytes than messages."""
WORD = 64


def whole(messages: int) -> int | None:
    """A mask of so many messages; None if those are more than a batch can have."""
    return (1 << messages) - 1 if messages <= MOST_MESSAGES else None


def mask_of(log: Log, offset: int, ack_set: tuple[int, ...]) -> int | None:
    """The same of an ack set, without bits for messages that the entry does not have."""
    if len(ack_set) * WORD > MOST_MESSAGES:
        return None
    mask, messages = ack_set_to_mask(ack_set), log.messages_at(offset)
    if messages is None:
        return mask
    there = whole(messages)
    return None if there is None else mask & there


def without_lowest(mask: int, count: int) -> int:
    """A mask without so many of its lowest ones."""
    low, high = 0, mask.bit_length()
    while low < high:  # below `low` are not too many, below `high` + 1 are
        middle = (low + high + 1) // 2
        if (mask & ((1 << middle) - 1)).bit_count() <= count:
            low = middle
        else:
            high = middle - 1
    return mask >> low << low
