"""MESSAGEs that are read together: the same as one by one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magnetar_proto.deliveries import (
    MAX_RUN,
    Delivery,
    decode_message,
    decode_run,
    encode_message,
    encode_messages,
)
from magnetar_proto.errors import BadCommand
from magnetar_proto.frames import Frame, FrameDecoder

LIMIT = 1 << 20
DELIVERIES = st.builds(
    Delivery,
    consumer_id=st.sampled_from((0, 1, 2, 300, 2**63)),
    ledger=st.sampled_from((0, 1, 2**40, 2**62)),
    entry=st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1)),
    partition=st.sampled_from((-1, 0, 3)),
    redelivery_count=st.sampled_from((0, 0, 1, 200)),
    ack_set=st.sampled_from(((), (), (5,), (2**64 - 1, 1))),
    consumer_epoch=st.sampled_from((None, None, 0, 7)),
)
SEND = (6, b"\x08\x06", 0, 2, b"")
"""A frame of another kind."""


def frames_of(deliveries: list[Delivery]) -> list[Frame]:
    """As they are sent, each with its number as its entry."""
    stream = b""
    for number, one in enumerate(deliveries):
        payload = b"%d" % number
        consumer, ledger, entry, partition, count, ack_set, epoch = one
        stream += encode_message(consumer, ledger, entry, partition, payload, count, ack_set, epoch)
        stream += payload
    return FrameDecoder(LIMIT).feed(stream)


def read(frames: list[Frame]) -> list[tuple[Delivery, bytes]]:
    """All of them, in runs."""
    found: list[tuple[Delivery, bytes]] = []
    while len(found) < len(frames):
        run = decode_run(frames, len(found))
        assert 0 < len(run.entries) == len(run.payloads) <= MAX_RUN
        assert run.head.entry == run.entries[0]
        for entry, payload in zip(run.entries, run.payloads, strict=True):
            found.append((run.head._replace(entry=entry), payload))
    return found


@given(st.lists(DELIVERIES, max_size=20))
@example([Delivery(1, 2, entry, -1, 0, (), None) for entry in (126, 127, 128, 129)])
@example([Delivery(1, 2, 3, -1, 0, (), epoch) for epoch in (1, 1, 2, None)])
def test_what_is_read_in_runs_is_what_was_sent(deliveries: list[Delivery]) -> None:
    frames = frames_of(deliveries)
    one_by_one = [(decode_message(*frame[1:4]), frame[4]) for frame in frames]
    assert read(frames) == one_by_one
    assert [delivery for delivery, _ in one_by_one] == deliveries


def test_neighbours_are_one_run() -> None:
    stream = b"".join(encode_messages(1, 7, 1000, 3, [b"x"] * 400, 5))
    frames = FrameDecoder(LIMIT).feed(stream)
    run = decode_run(frames, 0)
    assert run.head == Delivery(1, 7, 1000, 3, 0, (), 5)
    assert run.entries == list(range(1000, 1000 + MAX_RUN))
    assert decode_run(frames, MAX_RUN).entries == list(range(1000 + MAX_RUN, 1400))


def test_a_run_ends_at_a_frame_of_another_kind() -> None:
    [first, second, third] = frames_of(
        [Delivery(1, 2, entry, -1, 0, (), None) for entry in (1, 2, 3)]
    )
    assert decode_run([first, second, SEND, third], 0).entries == [1, 2]


def spoilt(frame: Frame, at: int, value: bytes) -> Frame:
    """The frame with other bytes in its command, from `at` on, counted from the end if negative."""
    kind, buf, start, mid, payload = frame
    command = bytearray(buf[start:mid])
    at %= len(command)
    command[at : at + len(value)] = value
    return kind, bytes(command[: mid - start]), 0, mid - start, payload


ENTRIES = st.sampled_from((1, 127, 128, 2**14, 2**28, 2**56, 2**63 - 1))


@given(ENTRIES, st.sampled_from((-1, 3)), st.sampled_from((None, 7)), st.data())
def test_a_malformed_frame_in_a_run_is_as_it_is_alone(
    entry: int, partition: int, epoch: int | None, data: st.DataObject
) -> None:
    delivery = Delivery(1, 2, entry, partition, 0, (), epoch)
    good, bad = frames_of([delivery, delivery])
    size = bad[3] - bad[2]
    at = data.draw(st.integers(0, size - 1))
    full = st.integers(1, 10).map(lambda count: b"\xff" * count)
    value = data.draw(st.binary(min_size=1, max_size=9) | full)
    hostile = spoilt(bad, at, value[: size - at])
    try:
        expected = decode_message(*hostile[1:4])
    except BadCommand:
        run = decode_run([good, hostile], 0)
        assert run.entries == [entry]
        with pytest.raises(BadCommand):
            decode_run([good, hostile], 1)
    else:
        assert read([good, hostile]) == [(delivery, good[4]), (expected, hostile[4])]


@pytest.mark.parametrize("epoch", [None, 7])
@pytest.mark.parametrize("entry", [1, 2**62])
def test_a_number_without_end_ends_a_run(entry: int, epoch: int | None) -> None:
    delivery = Delivery(1, 2, entry, -1, 0, (), epoch)
    good, bad = frames_of([delivery, delivery])
    width = 1 if entry == 1 else 9
    behind = 0 if epoch is None else 2
    hostile = spoilt(bad, -width - behind, b"\xff" * width)
    assert decode_run([good, hostile], 0).entries == [entry]
