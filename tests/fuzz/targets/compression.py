"""Compressed payloads: exactly the declared size or a refusal, never more memory than that takes.

Input: type, declared size (3 bytes), then the payload.
"""

import resource
from collections.abc import Iterator
from typing import Final

from fuzz import traffic
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.compression import compress, decompress
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadCompression, LocalError

LONGEST: Final = 4096
LIMIT: Final = 1 << 20
ROOM_KIB: Final = 128 << 10
"""What one payload may take besides: libraries, Zstandard's window, the size itself."""
BELOW_ZERO: Final = 1 << 16
"""Taken from the size of the input: declared sizes may be negative."""
KINDS: Final = (pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY, 5, -1)


def run(data: bytes) -> None:
    if len(data) < 4:
        return
    kind, size, payload = KINDS[data[0] % len(KINDS)], int.from_bytes(data[1:4], "big"), data[4:]
    before = peak_kib()
    refused(kind, payload, size - BELOW_ZERO)
    assert peak_kib() - before < ROOM_KIB, "a bomb went off"
    if kind not in KINDS[:5]:
        try:
            compress(kind, payload)
        except LocalError:
            return
        raise AssertionError(f"type {kind} does not exist")
    packed = compress(kind, payload)
    assert decompress(kind, packed, len(payload), LIMIT) == payload
    if kind != pb.NONE:
        for wrong in (len(payload) - 1, len(payload) + 1, LIMIT + 1):
            assert refused(kind, packed, wrong), "the declared size is not looked at"


def refused(kind: int, payload: bytes, size: int) -> bool:
    """Whether it does not inflate to exactly this size."""
    try:
        inflated = decompress(kind, payload, size, LIMIT)
    except BadCompression:
        return True
    assert inflated == payload if kind == pb.NONE else len(inflated) == size <= LIMIT
    return False


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def seeds() -> Iterator[bytes]:
    def one(kind: int, size: int, payload: bytes) -> bytes:
        return bytes([kind]) + (size + BELOW_ZERO).to_bytes(3, "big") + payload

    for entry in traffic.entries():
        metadata, at = parse_metadata(entry)
        yield one(metadata.compression, metadata.uncompressed_size, entry[at:])
    for kind in KINDS[1:5]:
        yield one(kind, LIMIT, compress(kind, bytes(LIMIT)))
        yield one(kind, 100, compress(kind, bytes(LIMIT * 8))[:LONGEST])
        yield one(kind, 0, compress(kind, b""))
