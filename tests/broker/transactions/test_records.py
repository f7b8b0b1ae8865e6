"""The records of a coordinator are read as they were written, and nothing else is."""

from struct import error as StructError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from magnetar_broker.transactions import records
from magnetar_broker.transactions.records import Participant, Status, TransactionRecordKind

NUMBERS = st.integers(0, (1 << 64) - 1)
NAMES = st.text(max_size=30)
PARTS = st.builds(Participant, NAMES, st.none() | NAMES)


@settings(max_examples=examples(300))
@given(NUMBERS, NUMBERS, NUMBERS, NAMES)
def test_a_beginning(least: int, opened_ms: int, ttl_ms: int, owner: str) -> None:
    kind, number, body = records.read(records.begun(least, opened_ms, ttl_ms, owner))
    assert (kind, number) == (TransactionRecordKind.BEGUN, least)
    assert records.read_begun(body) == (opened_ms, ttl_ms, owner)


@settings(max_examples=examples(300))
@given(NUMBERS, st.lists(PARTS, max_size=100))
def test_parts(least: int, parts: list[Participant]) -> None:
    found = []
    for record in records.added(least, parts):
        kind, number, body = records.read(record)
        assert (kind, number) == (TransactionRecordKind.ADDED, least)
        found += records.read_added(body)
    assert found == parts


def test_a_record_of_many_long_names_is_smaller_than_the_limit() -> None:
    longest = Participant("\U0001f600" * 4096, '"' * 4096)
    assert all(len(record) < 1 << 20 for record in records.added(1, [longest] * 50))


@pytest.mark.parametrize("status", Status)
def test_status(status: Status) -> None:
    for write, kind in (
        (records.changed, TransactionRecordKind.CHANGED),
        (records.remembered, TransactionRecordKind.REMEMBERED),
    ):
        found, least, body = records.read(write(7, status))
        assert (found, least, records.read_status(body)) == (kind, 7, status)


@settings(max_examples=examples(300))
@given(st.binary(max_size=40))
def test_other_bytes_are_refused_or_read(data: bytes) -> None:
    readers = {
        TransactionRecordKind.BEGUN: records.read_begun,
        TransactionRecordKind.ADDED: records.read_added,
        TransactionRecordKind.CHANGED: records.read_status,
        TransactionRecordKind.REMEMBERED: records.read_status,
    }
    try:
        kind, _, body = records.read(data)
        if kind in readers:
            readers[kind](body)
    except (ValueError, StructError):
        pass  # what a replay takes for damage
