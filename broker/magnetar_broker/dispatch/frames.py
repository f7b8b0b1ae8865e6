"""The bytes of runs on the wire, built once for all subscriptions that want the same."""

from collections.abc import Sequence
from typing import NamedTuple

from magnetar_proto.deliveries import encode_message, encode_messages, encode_scattered

KEPT_BYTES = 4 << 20
"""Frames kept for other subscriptions beyond this are forgotten, the oldest first."""

Key = tuple[int, int, int, int, int]
"""Consumer id, consumer epoch, ledger, first entry, number of entries."""


class Frames(NamedTuple):
    """MESSAGE frames of a run: what to write, its size, and the size of the payloads in it."""

    buffers: list[bytes]
    size: int
    payload_bytes: int


class FrameCache:
    """One topic's frames.

    A frame depends on the entry, the consumer's id and its epoch only, and the ids that clients
    choose are mostly the same: subscriptions that are woken by the same entries share the bytes.
    """

    def __init__(self, partition: int) -> None:
        self.shared = False
        """Whether what is built is kept; `forget` it at the end of the turn."""
        self._partition = partition
        self._kept: dict[Key, Frames] = {}
        self._kept_bytes = 0

    def of(
        self, consumer_id: int, epoch: int, ledger: int, first_entry: int, payloads: Sequence[bytes]
    ) -> Frames:
        """The frames of consecutive whole entries; epoch -1 for none."""
        key = (consumer_id, epoch, ledger, first_entry, len(payloads))
        found = self._kept.get(key)
        if found is None:
            found = self._build(*key[:4], payloads)
            if self.shared:
                self._keep(key, found)
        return found

    def scattered(
        self, consumer_id: int, ledger: int, entries: Sequence[int], payloads: Sequence[bytes]
    ) -> Frames:
        """The frames of whole entries of one ledger, the lowest first; nobody else wants these."""
        buffers = encode_scattered(consumer_id, ledger, entries, self._partition, payloads)
        return Frames(buffers, sum(map(len, buffers)), sum(map(len, payloads)))

    def forget(self) -> None:
        """Give back the memory."""
        self.shared = False
        self._kept.clear()
        self._kept_bytes = 0

    def _build(
        self, consumer_id: int, epoch: int, ledger: int, first_entry: int, payloads: Sequence[bytes]
    ) -> Frames:
        maybe_epoch = epoch if epoch >= 0 else None
        partition = self._partition
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

    def _keep(self, key: Key, frames: Frames) -> None:
        self._kept[key] = frames
        self._kept_bytes += frames.size
        while self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= self._kept.pop(next(iter(self._kept))).size
