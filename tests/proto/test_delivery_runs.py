"""MESSAGEs that are read together: the same as one by one."""

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
