"""Groups of writes that a server makes in one request, in order and all at once."""

from collections.abc import Sequence
from typing import NamedTuple

from magnetar_storage.metadata.writes import EndLease, Put, Write


class GroupLimits(NamedTuple):
    """The limits of one group."""

    writes: int
    bytes: int
    """The most bytes of keys and values; a larger write is a group of its own."""
    repeats_keys: bool
    """Whether a write of a group sees those before it: then a key may occur again, also as that of
    a guard."""


def next_group(waiting: Sequence[Write], limits: GroupLimits) -> Sequence[Write]:
    """Return the longest group that the waiting writes begin with; at least one write."""
    keys: set[str] = set()
    size = 0
    for number, write in enumerate(waiting):
        size += size_of(write)
        is_full = number == limits.writes or size > limits.bytes
        if number and (is_full or _must_wait(write, waiting[0], keys, limits)):
            return waiting[:number]
        if not isinstance(write, EndLease):
            keys.add(write.key)
    return waiting


def _must_wait(write: Write, first: Write, keys: set[str], limits: GroupLimits) -> bool:
    # The end of a lease is a request of its own.
    if isinstance(write, EndLease) or isinstance(first, EndLease):
        return True
    if limits.repeats_keys:
        return False
    # promise[never]: a guard is compared after the writes that were requested before
    return write.key in keys or (write.guard is not None and write.guard.key in keys)


def size_of(write: Write) -> int:
    """Return the bytes of the key and the value of a write."""
    if isinstance(write, EndLease):
        return 0
    size = len(write.key.encode())
    return size + len(write.value) if isinstance(write, Put) else size
