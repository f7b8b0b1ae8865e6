"""Records: read back whatever their size, and never taken for what they are not."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.faulty_disk import FaultyDisk
from magnetar_storage.local.record import (
    CREATE,
    DELETE,
    ENTRIES,
    HEADER,
    INDEX,
    JOIN_BELOW_BYTES,
    SEAL,
    counts_of,
    encode,
    encode_entries,
    flat,
    next_record,
    record_at,
    take_entries,
)
from magnetar_storage.local.rounds import encode_round, next_round, round_at
from magnetar_storage.local.segment_file import records_of

ENTRIES_OF = st.lists(
    st.tuples(st.binary(max_size=50), st.integers(0, 2**32 - 1)), min_size=1, max_size=8
)


@given(ENTRIES_OF, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_entries_are_read_back(entries: list[tuple[bytes, int]], segment: int, first: int) -> None:
    payloads, counts = [p for p, _ in entries], [c for _, c in entries]
    encoded, size = encode_entries(segment, first, payloads, counts)
    data = b"before" + b"".join(flat([encoded])) + b"behind"
    assert len(data) == size + 12
    record = record_at(data, 6)
    assert record == (ENTRIES, segment, first, len(entries), 6, size)
    assert list(counts_of(data, record)) == counts
    taken = take_entries(data, record, 0, 100, 1 << 20)
    assert (taken[0], list(taken[1]), taken[2]) == (payloads, counts, sum(map(len, payloads)))


def test_large_payloads_are_not_copied_and_encode_alike() -> None:
    large = bytes(JOIN_BELOW_BYTES)
    for payloads in ([large], [large, b"small"], [b"small"] * 3):
        encoded, size = encode_entries(1, 0, payloads, [1] * len(payloads))
        buffers = flat([encoded])
        assert sum(map(len, buffers)) == size
        assert all(buffer is large for buffer in buffers if len(buffer) == len(large))
        data = b"".join(buffers)
        record = record_at(data, 0)
        assert record is not None and take_entries(data, record, 0, 9, 1 << 30)[0] == payloads


@given(ENTRIES_OF, st.data())
def test_no_flipped_bit_and_no_missing_byte_is_overlooked(
    entries: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    encoded, size = encode_entries(5, 0, [p for p, _ in entries], [c for _, c in entries])
    content = bytearray(b"".join(flat([encoded])))
    assert record_at(bytes(content[:-1]), 0) is None
    content[data.draw(st.integers(0, size - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert record_at(bytes(content), 0) is None


@given(ENTRIES_OF, st.integers(0, 9), st.integers(1, 9), st.integers(0, 200))
def test_entries_are_taken_within_the_limits(
    entries: list[tuple[bytes, int]], skip: int, most: int, room: int
) -> None:
    payloads, counts = [p for p, _ in entries], [c for _, c in entries]
    encoded, _ = encode_entries(5, 0, payloads, counts)
    data = b"".join(flat([encoded]))
    record = record_at(data, 0)
    assert record is not None
    taken, of_taken, size = take_entries(data, record, skip, most, room)
    assert taken == payloads[skip:][: len(taken)] and list(of_taken) == counts[skip:][: len(taken)]
    assert len(taken) <= most and size == sum(map(len, taken)) <= room
    wanted = payloads[skip : skip + most]
    if len(taken) < len(wanted):
        assert size + len(wanted[len(taken)]) > room
        one, _, _ = take_entries(data, record, skip, 1, room, at_least_one=True)
        assert one == wanted[:1]


@given(st.lists(st.binary(max_size=30), max_size=6), st.binary(max_size=40))
def test_records_are_found_among_other_bytes(bodies: list[bytes], noise: bytes) -> None:
    records = [encode(INDEX, number, body) for number, body in enumerate(bodies)]
    data = noise + noise.join(records)
    found, at = [], 0
    while (record := next_record(data, at)) is not None:
        found.append(data[record.at + HEADER.size : record.end])
        at = record.end
    assert found == bodies
    disk = FaultyDisk()
    disk.open("f", create=True).write(0, [data])
    walked = [record.segment for _, _, record in records_of(disk.open("f"), 0, len(data))]
    assert walked == list(range(len(bodies)))


@given(
    st.lists(st.binary(max_size=20), max_size=5), st.integers(0, 2**32 - 1), st.binary(max_size=9)
)
def test_rounds_are_found_with_their_seed(bodies: list[bytes], seed: int, noise: bytes) -> None:
    records = [encode(INDEX, number, body) for number, body in enumerate(bodies)]
    sizes = list(map(len, records))
    crcs = [record[:4] for record in records]
    header = encode_round(3, seed, sizes, range(len(records)), [0] * len(records), crcs)
    data = noise + header + b"".join(records)
    found = next_round(data, 0, seed, above=2)
    assert found is not None and found == round_at(data, len(noise), seed)
    assert found.number == 3 and found.end == len(data)
    assert found.ends_file == (not records)
    for place, record in zip(found.places, records, strict=True):
        assert data[place.at : place.at + place.size] == record
        assert place.crc == int.from_bytes(record[:4], "little")
    assert next_round(data, 0, seed, above=3) is None
    assert round_at(data, len(noise), seed ^ 1) is None
    assert round_at(data[:-1], len(noise), seed) is None


def test_a_record_whose_body_is_of_another_size_than_its_kind_is_none() -> None:
    for kind, body in ((SEAL, b"short"), (CREATE, b"x"), (DELETE, b"x")):
        assert record_at(encode(kind, 1, body), 0) is None
    assert record_at(encode(ENTRIES, 1, bytes(15), n=2), 0) is None
