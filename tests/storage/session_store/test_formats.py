"""Ids, records, manifests and packs: what is written is read, and damage is noticed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.faulty_objects import FaultyObjects
from magnetar_storage.errors import Corrupt
from magnetar_storage.local.checkpoint import Flush
from magnetar_storage.session_store import manifest, packs
from magnetar_storage.session_store.manifest import Extent, SegmentRow
from magnetar_storage.session_store.session_ids import SESSIONS, first_above, session_of
from magnetar_storage.session_store.session_record import (
    SessionRecord,
    SessionState,
    key_of,
    number_of,
)

IDS = st.integers(0, (1 << 60) - 1)
NUMBERS = st.integers(1, SESSIONS - 1)
ROWS = st.dictionaries(
    IDS,
    st.builds(
        SegmentRow,
        IDS, IDS, IDS, st.booleans(),
        st.lists(st.builds(Extent, IDS, IDS, IDS), max_size=3).map(tuple),
    ),
    max_size=5,
)  # fmt: skip


@given(IDS, NUMBERS)
def test_the_next_id_is_the_smallest_that_names_the_session(beyond: int, session: int) -> None:
    found = first_above(beyond, session)
    assert found > beyond and session_of(found) == session
    assert found - SESSIONS <= beyond or found < 2 * SESSIONS
    assert session_of(session) == 0, "an id of another engine names no session"


@given(
    st.builds(
        SessionRecord,
        st.sampled_from(SessionState), st.sampled_from(["", "a", "\u2713"]), IDS, IDS,
        st.none() | IDS, IDS, st.frozensets(IDS, max_size=3), st.dictionaries(IDS, IDS, max_size=3),
    )
)  # fmt: skip
@settings(max_examples=examples(100))
def test_records_are_read_as_written(record: SessionRecord) -> None:
    assert SessionRecord.decode("key", record.encode()) == record


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{}", b'{"state":"odd"}', b'{"state":"open","trim":"x"}']
)
def test_a_record_of_something_else_is_refused(value: bytes) -> None:
    with pytest.raises(Corrupt, match="/sessions/1"):
        SessionRecord.decode("/sessions/1", value)


@given(NUMBERS)
def test_keys_are_in_the_order_of_numbers(number: int) -> None:
    assert number_of(key_of(number)) == number
    assert key_of(number - 1) < key_of(number)
    assert number_of("/sessions/x") is None and number_of("/sessions/1") is None


@given(NUMBERS, ROWS)
@settings(max_examples=examples(100))
def test_manifests_are_read_as_written(session: int, rows: dict[int, SegmentRow]) -> None:
    data = manifest.encode(session, rows)
    assert manifest.decode("name", data, session) == rows
    with pytest.raises(Corrupt):
        manifest.decode("name", data, session + 1)


def test_damage_to_any_byte_of_a_manifest_is_noticed() -> None:
    row = SegmentRow(1, 2, 3, True, (Extent(4, 5, 6), Extent(7, 8, 9)))
    data = manifest.encode(1, {10: row, 11: SegmentRow()})
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(Corrupt):
            manifest.decode("name", damaged, 1)
        with pytest.raises(Corrupt):
            manifest.decode("name", data[:at], 1)


def flush(segment: int, *records: bytes, offset: int = 0) -> Flush:
    return Flush(segment, offset, records, None, b"origin")


def test_large_segments_have_packs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "ALONE_BYTES", 10)
    monkeypatch.setattr(packs, "PACK_BYTES", 12)
    small = [flush(number, b"x" * 5) for number in (5, 4, 3, 2)]
    large = flush(1, b"x" * 10)
    portions = list(packs.portions([*small, large]))
    assert [[each.segment for each in portion] for portion in portions] == [[1], [2, 3, 4], [5]]
    assert list(packs.portions([])) == []


@given(st.lists(st.binary(max_size=700), max_size=9))
def test_objects_are_stored_in_parts_as_a_whole(buffers: list[bytes]) -> None:
    objects = FaultyObjects()
    packs.store(objects, "name", buffers)
    assert objects.content("name") == b"".join(buffers)


def test_parts_of_a_pack_follow_each_other() -> None:
    objects = FaultyObjects()
    parts = packs.write_pack(objects, "pack", 7, [flush(1, b"abc"), flush(2, b"def", offset=30)])
    first, second = parts
    assert (first.segment, second.segment) == (1, 2)
    data = objects.content("pack")
    assert second.extent == Extent(7, first.extent.size, 3)
    assert data[first.extent.size :] == b"def", "a later part has no head and no origin"
    assert data[: first.extent.size].endswith(b"originabc")
