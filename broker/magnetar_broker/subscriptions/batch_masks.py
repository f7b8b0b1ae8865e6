"""Parts of batches as bit masks: a set bit is a message that is not acknowledged.

A batch has as many messages as its producer claims.  One that claims more than fit into an entry
cannot be split: it is acknowledged, skipped and sought as a whole, so that no mask of that size
is ever built.
"""

from magnetar_proto.ids import ack_set_to_mask
from magnetar_storage.log.log import Log

MAX_MESSAGES = 1 << 20
"""The most messages of a batch: more than fit into one of the largest size by default, of at least
6 bytes each; a compressed batch may have fewer bytes than messages."""
WORD = 64
"""The number of bits in one number of an ack set on the wire."""


def full_mask(messages: int) -> int | None:
    """Return a mask with `messages` bits set; None for more than `MAX_MESSAGES`."""
    return (1 << messages) - 1 if messages <= MAX_MESSAGES else None


def unacked_mask(log: Log, offset: int, ack_set: tuple[int, ...]) -> int | None:
    """Return the mask of an ack set for the entry at `offset`; None if it cannot be split.

    Set bits are not acknowledged, as in the protocol.  Bits beyond the entry's messages are
    cleared.
    """
    # Before a mask is made of it: the size is the client's.
    if len(ack_set) * WORD > MAX_MESSAGES:
        return None
    mask, messages = ack_set_to_mask(ack_set), log.entries.messages_at(offset)
    if messages is None:
        return mask
    present = full_mask(messages)
    return None if present is None else mask & present


def without_lowest(mask: int, count: int) -> int:
    """Return a mask with its `count` lowest set bits cleared."""
    low, high = 0, mask.bit_length()
    while low < high:  # at most `count` bits below `low` are set
        middle = (low + high + 1) // 2
        if (mask & ((1 << middle) - 1)).bit_count() <= count:
            low = middle
        else:
            high = middle - 1
    return mask >> low << low
