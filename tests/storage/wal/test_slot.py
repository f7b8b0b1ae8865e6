"""The codec of slots and fences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_storage.errors import Corrupt
from magnetar_storage.identity import UNKNOWN
from magnetar_storage.interfaces import SegmentKind, SegmentOrigin
from magnetar_storage.local import segment_origin
from magnetar_storage.wal import slot as module
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import (
    HEAD_BYTES,
    QueuedRun,
    Slot,
    decode_directory,
    decode_head,
    decode_slot,
    encode_fence,
    encode_slot,
)

SESSION = WalSession("cluster/", 0x2A)
NONCE = bytes(range(16))
ORIGIN = SegmentOrigin("/topics/t", SegmentKind.MESSAGES, 3)

SAMPLE = bytes.fromhex(
    "000102030405060708090a0b0c0d0e0f4d41474e534c4f5401000000010000002a000000000000000500000000"
    "0000000300000071462278c000000000000000b0c51d5559e6518766f63e94576e400300000000020000000100"
    "00005e000000350000002d00000003000000000000000300000000000000000000000001000000000000000000"
    "000000000000000000090000000000000000000000000000000300000000000000030000000000000059e65187"
    "a75206003e00000000000000030000000000000000000000000000007b226c6f67223a222f746f706963732f74"
    "222c226b696e64223a226d65737361676573222c2265706f6368223a332c22637265617465645f6d73223a307d"
    "66f63e94a752010015000000020000000300000000000000000000000000000005000000000000000100000002"
    "0000006669727374576e4003a75201000d00000001000000000000000001000009000000000000000500000003"
    "0000006f74686572"
)
"""Slot 5 of version 1, with an origin and two runs."""
SAMPLE_FENCE = bytes.fromhex(
    "000102030405060708090a0b0c0d0e0f4d41474e534c4f5401000000020000002a000000000000000500000000"
    "0000000000000000000000000000000000000051e4c937"
)


def sample_runs() -> list[QueuedRun]:
    origin = segment_origin.encoded(3, ORIGIN, UNKNOWN)
    return [
        QueuedRun(3, 0, [b"first", b""], [1, 2], origin),
        QueuedRun(1 << 40, 9, [b"other"], [3], None),
    ]


def stored(runs: list[QueuedRun], nonce: bytes = NONCE, number: int = 5) -> bytes:
    return b"".join([nonce, *encode_slot(nonce, SESSION, number, runs).body()])


def test_names_do_not_depend_on_the_size_of_numbers() -> None:
    assert SESSION.name(255) == "cluster/wal/0000002a/0000000000ff"
    assert WalSession("", 1).name(0) == "wal/00000001/000000000000"


def test_the_format_is_that_of_released_versions() -> None:
    assert stored(sample_runs()) == SAMPLE
    assert b"".join(encode_fence(NONCE, SESSION, 5)) == SAMPLE_FENCE
    assert decode_head(SAMPLE_FENCE, SESSION, 5).is_fence


def test_a_slot_has_runs_and_origins() -> None:
    slot = decode_slot(SAMPLE, SESSION, 5)
    assert slot.name == "cluster/wal/0000002a/000000000005"
    origin, first, other = slot.places
    assert origin.is_origin
    assert origin.segment == 3
    named = segment_origin.of(slot.record(origin), 3)
    assert named is not None
    assert named.origin == ORIGIN
    run = slot.run(first)
    assert (run.first, run.payloads, list(run.counts)) == (0, [b"first", b""], [1, 2])
    assert (first.messages, first.payload_bytes) == (3, 5)
    assert (other.segment, other.first, other.n, other.messages) == (1 << 40, 9, 1, 3)
    assert origin.payload_bytes == 0
    assert other.end == len(SAMPLE)


RUNS = st.lists(
    st.builds(
        lambda segment, first, entries, origin: QueuedRun(
            segment,
            first,
            [payload for payload, _ in entries],
            [count for _, count in entries],
            segment_origin.encoded(segment, ORIGIN, UNKNOWN) if origin else None,
        ),
        st.integers(0, (1 << 64) - 1),
        st.integers(0, 1 << 40),
        st.lists(
            st.tuples(
                st.one_of(st.binary(max_size=50), st.just(bytes(70_000))),
                st.integers(0, (1 << 32) - 1),
            ),
            min_size=1,
            max_size=4,
        ),
        st.booleans(),
    ),
    max_size=5,
)


@settings(max_examples=examples(2000))
@given(RUNS, st.binary(min_size=16, max_size=16), st.integers(0, (1 << 64) - 1))
def test_a_slot_is_read_as_it_was_written(runs: list[QueuedRun], nonce: bytes, number: int) -> None:
    encoded = encode_slot(nonce, SESSION, number, runs)
    data = b"".join([nonce, *encoded.body()])
    head = decode_head(data, SESSION, number)
    assert (head.nonce, head.slot, head.is_fence, head.size) == (nonce, number, False, len(data))
    assert decode_directory(data[: head.records_at], head, SESSION) == encoded.places
    slot = decode_slot(data, SESSION, number)
    assert not slot.damage
    assert slot.places == encoded.places
    origins = [place for place in slot.places if place.is_origin]
    assert [slot.record(place) for place in origins] == [run.origin for run in runs if run.origin]
    places = [place for place in slot.places if not place.is_origin]
    for place, run in zip(places, runs, strict=True):
        assert (place.segment, place.messages) == (run.segment, sum(run.counts))
        assert place.payload_bytes == sum(map(len, run.payloads))
        found = slot.run(place)
        assert found == (run.first, run.payloads, found.counts)
        assert list(found.counts) == run.counts


def decoded(data: bytes) -> Slot | None:
    """Decode some bytes; None if they are refused or if any record is damaged."""
    try:
        slot = decode_slot(data, SESSION, 5)
    except Corrupt:
        return None
    return None if slot.damage else slot


def test_every_flipped_bit_is_noticed() -> None:
    assert decoded(SAMPLE) is not None
    for bit in range(8 * len(SAMPLE)):
        damaged = bytearray(SAMPLE)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decoded(bytes(damaged)) is None, bit
    for bit in range(8 * len(SAMPLE_FENCE)):
        damaged = bytearray(SAMPLE_FENCE)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt):
            decode_head(bytes(damaged), SESSION, 5)


def test_a_slot_that_was_cut_or_continued_is_noticed() -> None:
    for size in range(len(SAMPLE)):
        with pytest.raises(Corrupt):
            decode_slot(SAMPLE[:size], SESSION, 5)
    with pytest.raises(Corrupt, match="expected"):
        decode_slot(SAMPLE + b"\0", SESSION, 5)


def test_a_directory_that_was_cut_is_noticed() -> None:
    head = decode_head(SAMPLE, SESSION, 5)
    with pytest.raises(Corrupt, match="ends within its directory"):
        decode_directory(SAMPLE[: head.records_at - 1], head, SESSION)


def test_damage_of_one_record_leaves_the_others() -> None:
    damaged = bytearray(SAMPLE)
    damaged[-1] ^= 1
    slot = decode_slot(bytes(damaged), SESSION, 5)
    _, first, other = slot.places
    assert slot.run(first).payloads == [b"first", b""]
    for read in (slot.run, slot.record):
        with pytest.raises(Corrupt) as error:
            read(other)
        assert str(error.value) == (
            f"cluster/wal/0000002a/000000000005 at byte {other.at}: the record is damaged"
            " (segment 1099511627776, entries 9 to 9)"
        )


def test_damage_of_an_origin_names_its_segment() -> None:
    damaged = bytearray(SAMPLE)
    origin = decode_slot(SAMPLE, SESSION, 5).places[0]
    damaged[origin.end - 1] ^= 1
    slot = decode_slot(bytes(damaged), SESSION, 5)
    with pytest.raises(Corrupt, match=r"the record is damaged \(segment 3\)"):
        slot.record(origin)


def test_an_intact_record_of_another_slot_is_not_taken() -> None:
    other = stored([QueuedRun(3, 0, [b"second"], [1], None)])
    data = stored([QueuedRun(3, 0, [b"seldom"], [1], None)])
    place = decode_slot(data, SESSION, 5).places[0]
    slot = decode_slot(data[: place.at] + other[place.at :], SESSION, 5)
    assert list(slot.damage) == [place.at]


@pytest.mark.parametrize(("session", "slot"), [(WalSession("cluster/", 7), 5), (SESSION, 6)])
def test_a_slot_of_another_place_is_refused(session: WalSession, slot: int) -> None:
    with pytest.raises(Corrupt, match="it is slot 5 of session 42"):
        decode_head(SAMPLE, session, slot)


def test_a_fence_is_not_a_slot() -> None:
    with pytest.raises(Corrupt, match="expected a slot, found a fence"):
        decode_slot(SAMPLE_FENCE, SESSION, 5)


def test_another_object_is_refused() -> None:
    with pytest.raises(Corrupt, match="not part of a write-ahead log"):
        decode_head(bytes(HEAD_BYTES), SESSION, 5)


def test_a_later_release_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VERSION", 2)
    later = stored(sample_runs())
    monkeypatch.undo()
    with pytest.raises(Corrupt, match="a later release wrote it: version 2, kind 1"):
        decode_head(later, SESSION, 5)


@pytest.mark.parametrize("name", ["MOST_RECORDS", "MOST_BYTES"])
def test_figures_beyond_the_limits_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, 2)
    with pytest.raises(Corrupt, match="it claims 3 records of"):
        decode_head(SAMPLE, SESSION, 5)


def test_records_that_do_not_fill_the_object_are_refused() -> None:
    head = decode_head(SAMPLE, SESSION, 5)._replace(record_bytes=1)
    with pytest.raises(Corrupt, match="do not fill the object"):
        decode_directory(SAMPLE, head, SESSION)
