"""The load: SEND frames, encoded before any clock starts."""

import random
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.batch import encode_batch
from magnetar_proto.sends import encode_send

WRITE_BYTES = 256 << 10
WRITE_ENTRIES = 50
KEY_STEP = 7919
"""A prime, so that every key is used and neighbours have nothing in common."""
SHARED_PAYLOAD = 4 << 10
"""The payload size from which frames share one payload in memory."""


class Write(NamedTuple):
    """Whole frames that are written together."""

    buffers: list[bytes]
    entries: int


@dataclass(frozen=True)
class Shape:
    """The size of messages, their packing, and the number of topics that they are spread over."""

    size: int
    batch: int = 1
    """The messages of an entry; 1 is sent without a batch."""
    topics: int = 1
    keys: int = 0
    """The number of different keys of the entries; 0 for no keys."""

    def __str__(self) -> str:
        size = f"{self.size} B" if self.size < 1024 else f"{self.size >> 10} KiB"
        batch = f"{self.batch} x " if self.batch > 1 else ""
        topics = f" over {self.topics:,} topics" if self.topics > 1 else ""
        keys = f" with {self.keys:,} keys" if self.keys else ""
        return batch + size + topics + keys


@dataclass(frozen=True)
class Load:
    """The entries of one connection: round robin over producers 1, 2, ..., one for each topic."""

    shape: Shape
    writes: list[Write]
    entries: int

    def split(self, percent: int) -> "tuple[Load, Load]":
        """Split into the first part, at least one write, and the rest."""
        at = max(1, len(self.writes) * percent // 100)
        first, rest = self.writes[:at], self.writes[at:]
        count = sum(write.entries for write in first)
        return Load(self.shape, first, count), Load(self.shape, rest, self.entries - count)


@lru_cache(maxsize=2)
def encode_load(shape: Shape, entries: int, write_entries: int = WRITE_ENTRIES) -> Load:
    """Encode a load in writes of up to `write_entries`; sequence ids begin at 0."""
    payload = random.Random(7).randbytes(shape.size)
    metadata = pb.MessageMetadata(producer_name="bench", publish_time=time.time_ns() // 1_000_000)
    if shape.batch > 1:
        metadata.num_messages_in_batch = shape.batch
        payload = encode_batch([(pb.SingleMessageMetadata(), payload)] * shape.batch)
    shared = len(payload) >= SHARED_PAYLOAD
    frames = []
    for number in range(entries):
        sequence_id, topic = divmod(number, shape.topics)
        metadata.sequence_id = sequence_id
        if shape.keys:
            metadata.partition_key = f"key-{number * KEY_STEP % shape.keys}"
        encoded = metadata.SerializeToString()
        frame = encode_send(topic + 1, sequence_id, shape.batch, encoded, payload)
        frames.append(frame[: -len(payload)] if shared else frame)
    together = max(1, min(write_entries, WRITE_BYTES // len(payload)))
    writes = []
    for start in range(0, entries, together):
        group = frames[start : start + together]
        buffers = [b for head in group for b in (head, payload)] if shared else [b"".join(group)]
        writes.append(Write(buffers, len(group)))
    return Load(shape, writes, entries)
