"""The frame decoder: whole, in pieces, and against nonsense."""

import tracemalloc
from itertools import compress, pairwise
from struct import pack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from effort import part_of
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import BadCommand, BadFrame, FrameTooLarge, RemoteError
from magnetar_proto.frames import LARGE, FrameDecoder, encode_frame, pieces_of

LIMIT = 400
BIG_LIMIT = 4 * LARGE
Parts = tuple[int, bytes, bytes]

commands = st.tuples(st.integers(0, 127), st.binary(max_size=40)).map(
    lambda made: bytes((8, made[0])) + made[1]
)
frames = st.builds(encode_frame, commands, st.binary(max_size=200))


def parts(decoder: FrameDecoder, data: bytes) -> list[Parts]:
    """Feed, and copy out what the frames locate."""
    return [
        (kind, buf[start:mid], payload) for kind, buf, start, mid, payload in decoder.feed(data)
    ]


def decode_in(chunks: list[bytes], limit: int = LIMIT) -> tuple[list[Parts], str]:
    decoder = FrameDecoder(limit)
    found = [frame for chunk in chunks for frame in parts(decoder, chunk)]
    return found, repr(decoder.error)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(commands, st.binary(max_size=200))
def test_a_frame_comes_back(command: bytes, payload: bytes) -> None:
    found, error = decode_in([encode_frame(command, payload)])
    assert found == [(command[1], command, payload)]
    assert error == "None"


@given(st.lists(frames, max_size=5), st.binary(max_size=20), st.lists(st.integers(0, 2000)))
@example([], pack(">IIB", 4, 0, 0), [])
@example([], pack(">I", 5), [])
@example([], pack(">I", LIMIT), [2])
@example([], pack(">IIHB", 7, 9, 0x0806, 0), [])
def test_any_chunking_reads_the_same(good: list[bytes], tail: bytes, places: list[int]) -> None:
    data = b"".join(good) + tail
    whole = decode_in([data])
    assert decode_in(cut(data, places)) == whole
    assert decode_in([data[i : i + 1] for i in range(len(data))]) == whole
    assert len(whole[0]) >= len(good)


def decode_received(chunks: list[bytes]) -> tuple[list[Parts], str]:
    """As a socket's reads: each chunk in the same memory."""
    decoder, found = FrameDecoder(BIG_LIMIT), []
    memory = bytearray(max(map(len, chunks), default=0))
    for chunk in chunks:
        memory[: len(chunk)] = chunk
        with memoryview(memory)[: len(chunk)] as view:
            frames = decoder.feed(view)
        memory[:] = bytes(len(memory))
        found += [(kind, buf[start:mid], payload) for kind, buf, start, mid, payload in frames]
    return found, repr(decoder.error)


@given(
    st.lists(st.tuples(commands, st.sampled_from([0, 1, 100, LARGE - 8, LARGE, LARGE + 5000]))),
    st.lists(st.integers(0, BIG_LIMIT), max_size=6),
    st.data(),
)
def test_frames_are_put_together_as_they_came(
    sizes: list[tuple[bytes, int]], places: list[int], data: st.DataObject
) -> None:
    good = [encode_frame(command, b"p" * size) for command, size in sizes]
    decoder = FrameDecoder(BIG_LIMIT)
    frames = [frame for chunk in cut(b"".join(good), places) for frame in decoder.feed(chunk)]
    kept = data.draw(st.lists(st.booleans(), min_size=len(good), max_size=len(good)))
    assert b"".join(pieces_of(list(compress(frames, kept)))) == b"".join(compress(good, kept))


def test_frames_of_one_read_are_one_piece() -> None:
    stream = encode_frame(b"\x08\x12", b"payload") * 100
    assert pieces_of(FrameDecoder(BIG_LIMIT).feed(stream)) == [stream]


@given(
    st.lists(st.tuples(commands, st.sampled_from([0, 1, 100, LARGE - 8, LARGE, LARGE + 5000]))),
    st.lists(st.integers(0, BIG_LIMIT), max_size=6),
    st.sampled_from([b"", b"\x00", pack(">II", LARGE, 9) + bytes(20), pack(">IIH", LARGE, 0, 0)]),
)
def test_memory_that_is_used_again_reads_the_same(
    made: list[tuple[bytes, int]], places: list[int], tail: bytes
) -> None:
    sent = [(command, bytes((n + 1,)) * size) for n, (command, size) in enumerate(made)]
    data = b"".join(encode_frame(command, payload) for command, payload in sent) + tail
    expected = [(command[1], command, payload) for command, payload in sent]
    found, error = decode_in([data], BIG_LIMIT)
    assert found == expected
    for chunks in (cut(data, places), [data[i : i + 1000] for i in range(0, len(data), 1000)]):
        pieces = [
            chunk[i : i + BIG_LIMIT] for chunk in chunks for i in range(0, len(chunk), BIG_LIMIT)
        ]
        assert decode_received(pieces) == (expected, error)


def test_a_large_frame_with_a_type_that_does_not_come_first_is_found() -> None:
    ping = pb.CommandPing().SerializeToString()
    command = b"\x92\x01" + bytes((len(ping),)) + ping + b"\x08\x12"
    payload = bytes(LARGE)
    data = encode_frame(command, payload)
    expected = [(pb.BaseCommand.PING, command, payload)]
    assert decode_in([data], BIG_LIMIT)[0] == expected
    assert decode_received([data[:100], data[100:]])[0] == expected


def test_a_large_frame_beyond_the_limit_is_refused() -> None:
    assert "FrameTooLarge" in decode_in([encode_frame(b"\x08\x06", bytes(LARGE))], LARGE)[1]


def test_commands_inside_one_feed_are_not_copied() -> None:
    data = encode_frame(b"\x08\x12\x92\x01\x00") * 3
    assert all(buf is data for _, buf, _, _, _ in FrameDecoder(LIMIT).feed(data))


def test_after_a_frame_in_two_pieces_the_rest_is_not_copied() -> None:
    frame = encode_frame(b"\x08\x12\x92\x01\x00")
    decoder = FrameDecoder(LIMIT)
    assert decoder.feed(frame[:7]) == []
    rest = frame[7:] + frame
    first, second = decoder.feed(rest)
    assert first[1] == frame
    assert second[1] is rest


def test_the_limit_counts_the_length_word() -> None:
    frame = encode_frame(b"\x08\x06" + bytes(90))
    assert decode_in([frame], limit=len(frame))[1] == "None"
    decoder = FrameDecoder(len(frame) - 1)
    assert decoder.feed(frame) == []
    assert isinstance(decoder.error, FrameTooLarge)


def test_the_limit_can_be_raised_after_the_handshake() -> None:
    frame = encode_frame(b"\x08\x06" + bytes(90))
    decoder = FrameDecoder(20)
    assert len(decoder.feed(encode_frame(b"\x08\x02"))) == 1
    decoder.max_frame = len(frame)
    assert len(decoder.feed(frame)) == 1


def test_a_frame_too_large_is_refused_by_its_length_word() -> None:
    decoder = FrameDecoder(LIMIT)
    assert decoder.feed(pack(">I", LIMIT)[:3]) == []
    assert decoder.error is None
    assert decoder.feed(pack(">I", LIMIT)[3:]) == []
    assert isinstance(decoder.error, FrameTooLarge)


def test_frames_before_a_bad_one_are_delivered_and_nothing_after_it() -> None:
    good = encode_frame(b"\x08\x12")
    decoder = FrameDecoder(LIMIT)
    assert len(decoder.feed(good + pack(">II", 6, 7) + b"\x08\x12")) == 1
    assert isinstance(decoder.error, BadFrame)
    assert decoder.feed(good) == []


@pytest.mark.parametrize(
    "frame",
    [
        pack(">II", 0, 0),
        pack(">II", 4, 0),
        pack(">II", 5, 1) + b"\x08",
        pack(">II", 6, 1) + b"\x08\x06",
        pack(">II", 6, 3) + b"\x08\x06",
        pack(">II", 6, 0xFFFF_FFFF) + b"\x08\x06",
    ],
)
def test_contradicting_sizes_are_a_bad_frame(frame: bytes) -> None:
    decoder = FrameDecoder(LIMIT)
    assert decoder.feed(frame) == []
    assert isinstance(decoder.error, BadFrame)


def test_a_type_that_does_not_come_first_is_found() -> None:
    ping = pb.CommandPing().SerializeToString()
    command = b"\x92\x01" + bytes((len(ping),)) + ping + b"\x08\x12"
    assert decode_in([encode_frame(command)])[0] == [(pb.BaseCommand.PING, command, b"")]


@pytest.mark.parametrize("command", [b"\x92\x01\x00", b"\xff\xff", b"\x08\x80\x01", b"\x09\x06"])
def test_a_command_without_a_type_is_a_bad_command(command: bytes) -> None:
    decoder = FrameDecoder(LIMIT)
    assert decoder.feed(encode_frame(command)) == []
    assert isinstance(decoder.error, BadCommand)


@given(st.lists(st.binary(max_size=60), max_size=10), st.integers(0, 100))
def test_noise_is_accepted_or_refused(chunks: list[bytes], limit: int) -> None:
    decoder = FrameDecoder(limit)
    for chunk in chunks:
        for _, buf, start, mid, payload in decoder.feed(chunk):
            assert start + 2 <= mid <= len(buf)
            assert mid - start + len(payload) + 8 <= limit
    assert decoder.error is None or isinstance(decoder.error, RemoteError)


def test_a_large_frame_in_small_pieces_is_held_once() -> None:
    size = part_of(3 << 20)
    decoder = FrameDecoder(size)
    head = pack(">II", size - 4, 2) + b"\x08\x06"
    decoder.feed(head)
    tracemalloc.start()
    for _ in range((size - len(head) - 1) // 7):
        decoder.feed(b"1234567")
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < size * 1.5
