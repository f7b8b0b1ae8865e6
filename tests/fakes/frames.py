"""Frames and commands of the protocol, taken apart and put together."""

from magnetar_proto.frames import Frame, FrameDecoder
from magnetar_proto.wire import encode_varint


def frames_of(data: bytes) -> list[Frame]:
    """Return the frames in some bytes, which contain nothing else."""
    decoder = FrameDecoder(1 << 24)
    frames = decoder.feed(data)
    assert decoder.error is None
    assert sum(mid - start + len(payload) + 8 for _, _, start, mid, payload in frames) == len(data)
    return frames


def frame_of(data: bytes) -> Frame:
    """Return the only frame in some bytes."""
    (frame,) = frames_of(data)
    return frame


def located(command: bytes) -> tuple[bytes, int, int]:
    """Return a command amid other bytes, as a decoder meets it, with its start and end."""
    return b"\x08\x06" + command + b"\x0e\x01rest", 2, 2 + len(command)


def around(kind: int, body: bytes) -> bytes:
    """Return the BaseCommand of a type with this message."""
    return b"\x08" + bytes((kind,)) + encode_varint(kind << 3 | 2) + sized(body)


def sized(body: bytes) -> bytes:
    """Return a message after its size."""
    return encode_varint(len(body)) + body
