"""Messages of a link as bytes: the size in four bytes, then the message (`values.py`).

The bytes may come from another machine, and from another version: whatever they are, they are a
message or a `BadFrame`, and nothing beyond the limit is kept.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any

from magnetar_broker.ipc.values import decode_value, encode_value

FRAME_BYTES = 64 << 20
"""The most bytes of a frame."""
_SIZE = Struct(">I")

Message = tuple[Any, ...]


class BadFrame(Exception):
    """The bytes are not a message: the two ends do not understand each other."""


def encode(message: Message) -> bytes:
    """Return a message as a frame; `ValueError` if it is too large or not of plain values."""
    body = encode_value(message)
    if len(body) > FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes: a link carries at most {FRAME_BYTES}")
    return _SIZE.pack(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._left = bytearray()
        """The beginning of a frame whose end has not come yet."""

    def read(self, data: bytes | bytearray | memoryview) -> Iterator[Message]:
        """Yield the messages that `data` completes; `BadFrame` for anything else.

        Read them all before the next call.
        """
        if self._left:
            self._left += data
            if _end_of_frame(self._left, 0) is None:
                return
            data, self._left = self._left, bytearray()
        data = memoryview(data)
        at = 0
        while (end := _end_of_frame(data, at)) is not None:
            yield _decoded(data[at + _SIZE.size : end])
            at = end
        self._left += data[at:]


def first_message(data: bytes | bytearray, limit: int) -> tuple[Message, bytes] | None:
    """Return the first message, and the bytes after it; None if its end has not come.

    `BadFrame` for anything else, and for a message of more than `limit` bytes.
    """
    end = _end_of_frame(data, 0, limit)
    if end is None:
        return None
    whole = memoryview(data)
    return _decoded(whole[_SIZE.size : end]), bytes(whole[end:])


def _end_of_frame(
    data: bytes | bytearray | memoryview, at: int, limit: int = FRAME_BYTES
) -> int | None:
    """Return the end of the frame at an offset; None if that is beyond the data."""
    if at + _SIZE.size > len(data):
        return None
    (size,) = _SIZE.unpack_from(data, at)
    # promise: nobody makes a process wait for a message without end
    if size > limit:
        raise BadFrame(f"a message of {size} bytes: expected at most {limit}")
    end = at + _SIZE.size + int(size)
    return end if end <= len(data) else None


def _decoded(body: memoryview) -> Message:
    try:
        message = decode_value(bytes(body))
    except ValueError as error:
        raise BadFrame(f"a message that cannot be read: {error}") from error
    if not isinstance(message, tuple) or not message:
        raise BadFrame(f"a {type(message).__name__} instead of a message")
    return message
