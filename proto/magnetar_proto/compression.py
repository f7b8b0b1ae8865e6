"""Payload compression and decompression, by the types of the protocol.

A declared size is never trusted: data that inflates to another size is refused, and nothing
larger than the declared size is ever inflated.

The library of a codec is imported by its first use: together they take 2 MB.
"""

import zlib
from collections.abc import Callable
from typing import Final

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import BadCompression, LocalError, RemoteError
from magnetar_proto.wire import decode_varint

# The largest history a Zstandard frame may ask for; encoders stay below it at ordinary levels.
MAX_ZSTD_WINDOW: Final = 32 << 20


def compress(kind: int, data: bytes) -> bytes:
    """Compress with the CompressionType `kind`; LocalError when there is no such type."""
    codec = _CODECS.get(kind)
    if codec is None:
        raise LocalError(f"compression type {kind} is unknown")
    return codec[0](data)


def decompress(kind: int, data: bytes, uncompressed_size: int, limit: int) -> bytes:
    """Decompress to exactly `uncompressed_size` bytes, at most `limit`; BadCompression otherwise.

    Data of type NONE is returned unchanged; its declared size, which may be absent, is ignored.
    """
    codec = _CODECS.get(kind)
    if codec is None:
        raise BadCompression(f"compression type {kind} is unknown")
    if kind == pb.NONE:
        return data
    if not 0 <= uncompressed_size <= limit:
        raise BadCompression(f"{uncompressed_size} uncompressed bytes exceed the limit of {limit}")
    inflated = codec[1](data, uncompressed_size)
    if len(inflated) != uncompressed_size:
        raise BadCompression(f"{len(inflated)} bytes instead of the declared {uncompressed_size}")
    return inflated


def _as_is(data: bytes, _size: int = 0) -> bytes:
    return data


def _lz4(data: bytes) -> bytes:
    import lz4.block  # noqa: PLC0415

    return bytes(lz4.block.compress(data, store_size=False))


def _un_lz4(data: bytes, size: int) -> bytes:
    import lz4.block  # noqa: PLC0415

    try:
        return bytes(lz4.block.decompress(data, uncompressed_size=size))
    except lz4.block.LZ4BlockError as error:
        raise BadCompression(f"LZ4: {error}") from error


def _un_zlib(data: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # One byte more, since a maximum of 0 would mean no maximum.
        inflated = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise BadCompression(f"zlib: {error}") from error
    if len(inflated) <= size and (not inflater.eof or inflater.unused_data):
        raise BadCompression("zlib: the stream does not end with the data")
    return inflated


def _zstd(data: bytes) -> bytes:
    import zstandard  # noqa: PLC0415

    return zstandard.ZstdCompressor().compress(data)


def _un_zstd(data: bytes, size: int) -> bytes:
    import zstandard  # noqa: PLC0415

    try:
        # A size in the frame's header would override the maximum given below.
        if zstandard.frame_content_size(data) not in (-1, size):
            raise BadCompression(f"zstd: the frame does not announce {size} bytes")
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW)
        return decompressor.decompress(data, max_output_size=max(1, size), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadCompression(f"zstd: {error}") from error


def _snappy(data: bytes) -> bytes:
    import snappy  # noqa: PLC0415

    return bytes(snappy.compress(data))


def _un_snappy(data: bytes, size: int) -> bytes:
    import snappy  # noqa: PLC0415

    try:
        # The block's own preamble decides how much is allocated.
        announced, _ = decode_varint(data, 0)
    except (IndexError, RemoteError) as error:
        raise BadCompression("snappy: the block has no preamble") from error
    if announced != size:
        raise BadCompression(f"snappy: the block announces {announced} bytes, not {size}")
    try:
        return bytes(snappy.uncompress(data))
    except snappy.UncompressError as error:
        raise BadCompression(f"snappy: {error}") from error


_CODECS: Final[dict[int, tuple[Callable[[bytes], bytes], Callable[[bytes, int], bytes]]]] = {
    pb.NONE: (_as_is, _as_is),
    pb.LZ4: (_lz4, _un_lz4),
    pb.ZLIB: (zlib.compress, _un_zlib),
    pb.ZSTD: (_zstd, _un_zstd),
    pb.SNAPPY: (_snappy, _un_snappy),
}
