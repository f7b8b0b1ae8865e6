"""The first frame of a connection: cut off where it ends; the process that the client names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.workers import connect_frame
from magnetar_broker.session.first_frame import FirstFrame, named_broker
from magnetar_broker.session.session import MAX_FRAME_BEFORE_CONNECT
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode
from magnetar_proto.frames import SIZE, SIZES


@given(st.integers(0, 300), st.binary(max_size=20), st.data())
def test_the_frame_is_collected_and_no_byte_behind_it(
    filler: int, behind: bytes, data: st.DataObject
) -> None:
    sent = connect_frame("pulsar://b:1", filler)
    stream, frame, at = sent + behind, FirstFrame(), 0
    while lacks := frame.lacks:
        piece = stream[at : at + data.draw(st.integers(1, lacks))]
        frame.add(piece)
        at += len(piece)
    assert frame.data == sent and at == len(sent)


@pytest.mark.parametrize("total", [0, 5, MAX_FRAME_BEFORE_CONNECT - 3, 0x47455420])
def test_a_size_that_a_session_refuses_ends_the_reading(total: int) -> None:
    frame = FirstFrame()
    frame.add(SIZE.pack(total))
    assert frame.lacks == 0 and frame.data == SIZE.pack(total)


def test_the_largest_frame_that_a_session_accepts_is_read() -> None:
    frame = FirstFrame()
    frame.add(SIZE.pack(MAX_FRAME_BEFORE_CONNECT - SIZE.size))
    assert frame.lacks == MAX_FRAME_BEFORE_CONNECT - SIZE.size


@pytest.mark.parametrize("url", ["b1:6650", "pulsar://b1:6650", "pulsar+ssl://b1:6650"])
def test_the_named_broker_is_found_with_and_without_a_scheme(url: str) -> None:
    assert named_broker(connect_frame(url)) == "b1:6650"


@pytest.mark.parametrize(
    "frame",
    [
        connect_frame(),
        encode(pb.CommandPing()),
        SIZE.pack(0),
        SIZES.pack(6, 2) + b"\x08\x02",  # CONNECT without its message
        SIZES.pack(8, 4) + b"\xff\xff\xff\xff",
        connect_frame("b1:1").replace(b"b1:1", b"\xff1:1"),
    ],
    ids=["none named", "PING", "size", "no message", "no command", "no text"],
)
def test_what_names_no_broker_is_left_to_a_session(frame: bytes) -> None:
    assert named_broker(frame) == ""


@given(st.binary(max_size=64))
def test_any_bytes_name_a_broker_or_none(frame: bytes) -> None:
    assert isinstance(named_broker(frame), str)
