"""Frames of entries that do not follow each other are those that each would have alone."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar_proto.deliveries import JOIN_BELOW, encode_message, encode_scattered

STEP = 1 << 14
numbers = st.integers(0, 300) | st.integers(STEP - 3, STEP + 3) | st.integers(0, 2**40)
large = b"x" * (JOIN_BELOW + 1)


@given(
    consumer=st.integers(0, 300),
    ledger=st.integers(0, 2**63),
    entries=st.sets(numbers, min_size=1, max_size=12).map(sorted),
    partition=st.integers(-1, 200),
    payloads=st.lists(st.binary(max_size=9) | st.just(large), min_size=12, max_size=12),
)
def test_scattered_entries(
    consumer: int, ledger: int, entries: list[int], partition: int, payloads: list[bytes]
) -> None:
    payloads = payloads[: len(entries)]
    buffers = encode_scattered(consumer, ledger, entries, partition, payloads)
    alone = [
        encode_message(consumer, ledger, entry, partition, payload) + payload
        for entry, payload in zip(entries, payloads, strict=True)
    ]
    assert b"".join(buffers) == b"".join(alone)


def test_small_entries_of_one_stretch_are_one_piece() -> None:
    assert len(encode_scattered(1, 2, [3, 5, 9], -1, [b"a", b"b", b"c"])) == 1
    assert len(encode_scattered(1, 2, [3, 500], -1, [b"a", b"b"])) == 2
