"""MESSAGE frames of runs, built once for all subscriptions that send the same."""

from collections.abc import Sequence
from typing import NamedTuple

from magnetar_proto.broker_metadata import without_broker_metadata
from magnetar_proto.deliveries import encode_message, encode_messages, encode_scattered

CACHE_BYTES = 4 << 20
"""Limit of frames cached for other subscriptions; the oldest are dropped first."""

Key = tuple[int, int, int, int, int, bool]
"""Consumer id, consumer epoch, ledger, first entry, number of entries, without broker metadata."""


class Frames(NamedTuple):
    """MESSAGE frames of a run: what to write, its size, and the size of the payloads in it."""

    buffers: list[bytes]
    size: int
    payload_bytes: int


class FrameCache:
    """The encoded frames of one topic.

    A frame depends on the entry, the consumer's id and its epoch only, and the ids that clients
    choose are mostly the same: subscriptions that are woken by the same entries share the bytes.
    """

    def __init__(self, partition: int) -> None:
        self.shared = False
        """Whether frames are cached; call `forget` at the end of the event loop turn."""
        self._partition = partition
        self._cached: dict[Key, Frames] = {}
        self._cached_bytes = 0

    def of(
        self,
        consumer_id: int,
        epoch: int,
        ledger: int,
        first_entry: int,
        payloads: Sequence[bytes],
        bare: bool = False,
    ) -> Frames:
        """Return the frames of consecutive whole entries; epoch -1 for none.

        If `bare`, what a broker has added to the entries is left out.
        """
        # With the number of entries: a subscription with fewer permits sends a part of the run.
        key = (consumer_id, epoch, ledger, first_entry, len(payloads), bare)
        found = self._cached.get(key)
        if found is None:
            if bare:
                payloads = list(map(without_broker_metadata, payloads))
            found = self._build(consumer_id, epoch, ledger, first_entry, payloads)
            # With one subscription nobody asks again, and frames would only occupy memory.
            if self.shared:
                self._cache(key, found)
        return found

    def scattered(
        self,
        consumer_id: int,
        ledger: int,
        entries: Sequence[int],
        payloads: Sequence[bytes],
        bare: bool = False,
    ) -> Frames:
        """Return the frames of whole entries of one ledger in ascending order; not cached."""
        if bare:
            payloads = list(map(without_broker_metadata, payloads))
        # Key_Shared picks entries by their keys: two subscriptions rarely send the same ones.
        buffers = encode_scattered(consumer_id, ledger, entries, self._partition, payloads)
        return Frames(buffers, sum(map(len, buffers)), sum(map(len, payloads)))

    def forget(self) -> None:
        """Stop caching and release the memory."""
        self.shared = False
        self._cached.clear()
        self._cached_bytes = 0

    def _build(
        self, consumer_id: int, epoch: int, ledger: int, first_entry: int, payloads: Sequence[bytes]
    ) -> Frames:
        maybe_epoch = epoch if epoch >= 0 else None
        partition = self._partition
        # Steady traffic mostly delivers entries singly, without the lists that a run needs.
        if len(payloads) == 1:
            payload = payloads[0]
            head = encode_message(
                consumer_id, ledger, first_entry, partition, payload, 0, (), maybe_epoch
            )
            return Frames([head, payload], len(head) + len(payload), len(payload))
        buffers = encode_messages(
            consumer_id, ledger, first_entry, partition, payloads, maybe_epoch
        )
        return Frames(buffers, sum(map(len, buffers)), sum(map(len, payloads)))

    def _cache(self, key: Key, frames: Frames) -> None:
        self._cached[key] = frames
        # Bounded within the turn, too: it may deliver a backlog to many subscriptions.
        self._cached_bytes += frames.size
        while self._cached_bytes > CACHE_BYTES:
            # A dict keeps the order of insertion: its first key is the oldest.
            self._cached_bytes -= self._cached.pop(next(iter(self._cached))).size
