"""What comes over a link: the same messages however it is split, and nothing that does harm.

Input: how to split (its size first), then the stream.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

from fakes.links import Joined
from fuzz.choices import Choices
from magnetar_broker.ipc.frames import BadFrame, FrameReader, Message, encode
from magnetar_broker.ipc.handshake import MAGIC, Greeting, Handshake

LONGEST: Final = 4096
DEEP: Final = (0, 1, "echo", ([[[[[[[[1]]]]]]]],))
MESSAGES: Final[tuple[Message, ...]] = (
    (0, 1, "echo", (1, -5, 1 << 70, None, True, 2.5, "é" * 70, b"bytes")),
    (0, 2, "echo", (tuple(range(40)), [1, "x"], {1, b"2"}, {"a": {"b": ()}})),
    (0, 3, "echo", ()), (0, 4, "other", ()), (1, "echo", (1,)), (1, "other", ()),
    (2, 1, "answer"), (3, 2, ("NotReady", "retry", {"field": 1})), (3, 1, ("Later", "x", {})), DEEP,
)  # fmt: skip


GREETING: Final = {
    "cluster": "c", "broker": "b2", "process": "p", "version": "v", "least_level": 1, "level": 2,
}  # fmt: skip


def run(data: bytes) -> None:
    choices = Choices(data)
    splits = choices.data()
    stream = choices.rest()
    whole, is_bad = read(stream, [])
    assert same(read(stream, list(splits))[0], whole), "the messages depend on the splits"
    for message in whole:
        (again,) = FrameReader().read(encode(message))
        assert same(again, message)
    assert greeted(stream, []) == greeted(stream, list(splits))
    pair = Joined()
    pair.left.serve({"echo": lambda *values: list(values)})
    answers = [pair.left.request("any", number) for number in range(2)]
    pair.connect()
    pair.left.receive(stream)
    pair.clock.pump()
    assert pair.left.has_ended or not is_bad, "a link goes on behind a bad frame"
    pair.left.close()
    assert all(answer.done() for answer in answers)


def read(stream: bytes, sizes: list[int]) -> tuple[list[Message], bool]:
    """Return the messages of the stream fed in pieces of these sizes, and whether one was bad."""
    reader = FrameReader()
    found: list[Message] = []
    at = turn = 0
    while at < len(stream):
        size = max(1, sizes[turn % len(sizes)]) if sizes else len(stream)
        try:
            for message in reader.read(stream[at : at + size]):
                assert isinstance(message, tuple) and message
                found.append(message)
        except BadFrame:
            return found, True
        at, turn = at + size, turn + 1
    return found, False


def greeted(stream: bytes, sizes: list[int]) -> tuple[bytes, bool, str, bytes]:
    """Return what a handshake makes of the stream fed in pieces of these sizes."""
    output = bytearray()
    handshake = Handshake(Greeting("c", "b1", "p", "v"), output.extend, lambda _: "")
    rest = b""
    at = turn = 0
    while at < len(stream):
        size = max(1, sizes[turn % len(sizes)]) if sizes else len(stream)
        rest += handshake.receive(stream[at : at + size])
        at, turn = at + size, turn + 1
    return rest, handshake.is_over, handshake.refusal, bytes(output)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, and of the same types; a NaN equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, set):
        return same(sorted(map(repr, one)), sorted(map(repr, other)))
    return bool(one == other)


def seeds() -> Iterator[bytes]:
    yield b"\x01\x05" + b"".join(map(encode, MESSAGES))
    for message in MESSAGES:
        yield b"\x00" + encode(message)
    for verdict in ("", "another cluster"):
        yield b"\x01\x03" + encode((MAGIC, GREETING)) + encode((verdict,)) + encode(DEEP)
    yield b"\x00" + encode((MAGIC, {**GREETING, "cluster": "other", "more": ()}))
