"""Frames of a link: whole, in pieces, and damaged."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_broker.ipc.frames import FRAME_BYTES, BadFrame, FrameReader, Message, encode
from magnetar_broker.ipc.values import encode_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
MESSAGES = st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=6)


@given(messages=MESSAGES, cuts=st.lists(st.integers(1, 40), min_size=1))
@settings(max_examples=examples(300))
def test_messages_arrive_whole_however_they_are_cut(
    messages: list[Message], cuts: list[int]
) -> None:
    stream = b"".join(map(encode, messages))
    reader, found, at, turn = FrameReader(), list[Message](), 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        found += reader.read(memoryview(stream)[at : at + size])
        at, turn = at + size, turn + 1
    assert found == messages
    assert list(FrameReader().read(stream)) == messages


@given(junk=st.binary(max_size=200))
@settings(max_examples=examples(300))
def test_what_is_no_message_is_a_bad_frame(junk: bytes) -> None:
    framed = len(junk).to_bytes(4, "big") + junk
    try:
        (message,) = FrameReader().read(framed)
    except BadFrame:
        return
    assert isinstance(message, tuple) and message


@pytest.mark.parametrize("value", [3, (), [1], "text"])
def test_other_values_are_no_messages(value: Any) -> None:
    body = encode_value(value)
    with pytest.raises(BadFrame, match=f"a {type(value).__name__} instead"):
        list(FrameReader().read(len(body).to_bytes(4, "big") + body))


def test_a_frame_above_the_limit_is_neither_sent_nor_awaited() -> None:
    with pytest.raises(ValueError, match=f"at most {FRAME_BYTES}"):
        encode((bytes(FRAME_BYTES),))
    with pytest.raises(BadFrame, match=f"expected at most {FRAME_BYTES}"):
        list(FrameReader().read((FRAME_BYTES + 1).to_bytes(4, "big")))


def test_a_large_message_is_collected_without_cutting_it_again_and_again() -> None:
    """Its size only is looked at before its end is there."""
    stream = encode((bytes(1 << 20), "end"))
    reader, found = FrameReader(), list[Message]()
    for at in range(0, len(stream), 1000):
        found += reader.read(stream[at : at + 1000])
    assert found == [(bytes(1 << 20), "end")]
