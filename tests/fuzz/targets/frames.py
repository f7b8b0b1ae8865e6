"""A byte stream into frames: the same ones however it is split, and nothing kept beyond the limit.

Input: how to split (its size first), then the stream.
"""

import sys
from collections.abc import Iterator
from typing import Final

from fuzz.choices import Choices
from fuzz.traffic import streams
from magnetar_proto.errors import RemoteError
from magnetar_proto.frames import FrameDecoder, encode_frame

MAX_FRAME: Final = 1024
LONGEST: Final = 4096

Cut = tuple[int, bytes, bytes]
"""A frame's kind, command and payload section."""


def run(data: bytes) -> None:
    choices = Choices(data)
    splits = choices.data()
    stream = choices.rest()
    whole, error = fed(stream, [])
    assert fed(stream, list(splits)) == (whole, error), "the frames depend on the splits"
    if len(stream) <= MAX_FRAME // 4:
        assert fed(stream, [1]) == (whole, error), "fed byte by byte the frames are others"
    for kind, command, payload in whole:
        frame = encode_frame(command, payload)
        assert len(frame) <= MAX_FRAME
        assert fed(frame, []) == ([(kind, command, payload)], None)
    if error is None:
        used = sum(len(command) + len(payload) + 8 for _, command, payload in whole)
        assert 0 <= len(stream) - used < MAX_FRAME, "bytes are neither a frame nor awaited"


def fed(stream: bytes, sizes: list[int]) -> tuple[list[Cut], type[RemoteError] | None]:
    """The frames of the stream fed in pieces of these sizes, in turn, and how it ended."""
    decoder = FrameDecoder(MAX_FRAME)
    cut: list[Cut] = []
    at = turn = 0
    while at < len(stream):
        size = max(1, sizes[turn % len(sizes)]) if sizes else len(stream)
        failed = decoder.error is not None
        frames = decoder.feed(stream[at : at + size])
        assert not (failed and frames), "frames come behind an error"
        for kind, buf, start, mid, payload in frames:
            assert 0 <= start <= mid <= len(buf)
            cut.append((kind, buf[start:mid], payload))
        if not frames:  # then all that came is kept, if anything is
            held = sum(sys.getsizeof(getattr(decoder, name)) for name in decoder.__slots__)
            assert held <= 4 * MAX_FRAME, f"{held} bytes are held for a frame of {MAX_FRAME}"
        at, turn = at + size, turn + 1
    assert isinstance(decoder.error, RemoteError | None)
    return cut, None if decoder.error is None else type(decoder.error)


def seeds() -> Iterator[bytes]:
    for stream in streams():
        yield b"\x03\x01\x40\x07" + stream[: LONGEST - 4]
    yield b"\x00" + encode_frame(b"\x08\x12\x92\x01\x00") * 3
    yield b"\x01\x05" + encode_frame(b"\x92\x01\x00\x08\x12", b"payload")
