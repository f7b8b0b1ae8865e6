"""Chunks: entries that are parts of a message which was too large for one."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from magnetar_proto.entries import CHECKED_HEAD, CHECKED_MAGIC, METADATA_AT, parse_metadata
from magnetar_proto.errors import BadMetadata

TAG: Final = b"\xd8\x01"
"""In the metadata of every chunk: that of num_chunks_from_msg."""


class Chunk(NamedTuple):
    """Which part of which message."""

    uuid: str
    """The same for all chunks of a message."""
    number: int
    """From 0."""
    of: int

    @property
    def is_last(self) -> bool:
        """Whether the message is complete with it."""
        return self.number >= self.of - 1


def maybe_chunks(entries: Sequence[bytes]) -> list[int]:
    """The indexes of those that may be chunks: nearly always none.  Nothing is parsed."""
    found = []
    for at, entry in enumerate(entries):
        stop = len(entry)
        if stop > METADATA_AT:
            magic, _, size = CHECKED_HEAD.unpack_from(entry)
            if magic == CHECKED_MAGIC:
                stop = METADATA_AT + size
        if entry.find(TAG, 0, stop) >= 0:
            found.append(at)
    return found


def chunk_of(entry: bytes) -> Chunk | None:
    """What chunk an entry is; None for any other, and for what cannot be read."""
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata:
        return None
    if metadata.num_chunks_from_msg <= 1 or not metadata.uuid:
        return None
    return Chunk(metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg)
