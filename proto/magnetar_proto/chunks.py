"""Chunks: entries that hold the parts of a message too large for one entry."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from magnetar_proto.entries import metadata_range, parse_metadata, text_bytes
from magnetar_proto.errors import BadMetadata

TAG: Final = re.compile(rb"\xd8\x01")
"""The tag of num_chunks_from_msg, which the metadata of every chunk has."""
SMALL: Final = 256
"""Entries up to this mean size are joined and searched together, payloads included."""


class Chunk(NamedTuple):
    """Identifies a part of a chunked message."""

    uuid: bytes
    """Identifies the message: equal in all its chunks."""
    number: int
    """The index of the chunk, from 0."""
    of: int

    @property
    def is_last(self) -> bool:
        """Whether this is the last chunk of the message."""
        return self.number >= self.of - 1


def chunks_among(entries: Sequence[bytes]) -> dict[int, Chunk]:
    """Return the chunks among entries, by index.  There are rarely any, so little is parsed."""
    if sum(map(len, entries)) <= SMALL * len(entries) and not TAG.search(b"".join(entries)):
        return {}
    found = {
        at: chunk_of(entry)
        for at, entry in enumerate(entries)
        if TAG.search(entry, *metadata_range(entry))
    }
    return {at: chunk for at, chunk in found.items() if chunk is not None}


def chunk_of(entry: bytes) -> Chunk | None:
    """Return the chunk in an entry; None if it is not a chunk or its metadata is unreadable."""
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata:
        return None
    uuid = text_bytes(metadata, "uuid") if metadata.num_chunks_from_msg > 1 else b""
    if not uuid:
        return None
    return Chunk(uuid, metadata.chunk_id, metadata.num_chunks_from_msg)
