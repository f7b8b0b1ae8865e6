"""The record of a log: its encoding, and invalid values."""

from dataclasses import replace

import pytest

from fakes.logs import BY_THREE, KEY, LogWorld, numbered
from fakes.rewritten import RewrittenLog
from magnetar_storage.errors import Corrupt
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord, Segment, is_unused


def test_the_record_survives_encoding() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    for payload in numbered(0, 8):
        world.append(log, payload)
    world.do(log.stored_record.change_properties(lambda _: {"clé": "valeur"}))
    assert LogRecord.decode(KEY, log.record.encode()) == log.record


def test_the_record_of_a_terminated_log_survives_encoding() -> None:
    for last in (None, (3, 7)):
        record = LogRecord(terminated=True, terminated_at=last)
        assert LogRecord.decode(KEY, record.encode()) == record


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"version": 1, "segments": [{}], "trash": []}', "cannot be read"),
        (b'{"version": 1, "segments": [], "trash": [[]]}', "id: expected a number"),
        (
            b'{"version": 1, "segments": [], "trash": [], "epoch": "x"}',
            "epoch: expected a number but got 'x'",
        ),
        (
            b'{"version": 2, "segments": [{"id": 1, "created_ms": 0, "kept": 1.5}], "trash": []}',
            "kept: expected a number but got 1.5",
        ),
        (b'{"version": 1, "segments": [], "trash": [], "surprise": 0}', "cannot be read"),
        (b'{"version": 4, "segments": [], "trash": [], "terminated_at": [1]}', "cannot be read"),
        (
            b'{"version": 4, "segments": [], "trash": [], "terminated_at": [1, ""]}',
            "id: expected a number",
        ),
        (
            b'{"version": 6, "segments": [{"id": 1, "created_ms": 0, "lost": [[1]]}], "trash": []}',
            "cannot be read",
        ),
        (
            b'{"version": 6, "segments": [{"id": 1, "created_ms": 0, "lost": [[1, ""]]}], '
            b'"trash": []}',
            "id: expected a number",
        ),
        (b'{"version": 10, "segments": [], "trash": [], "surprise": 0}', "record version 10"),
    ],
)
def test_a_record_that_is_none_is_corrupt(value: bytes, why: str) -> None:
    world = LogWorld()
    world.do(world.metadata.put(KEY, value))
    with pytest.raises(Corrupt, match=why):
        world.do(Log.open(KEY, world.engine, create=True))
    found = world.do(world.metadata.get(KEY))
    assert found is not None and found.value == value, "damage is left as it was found"


def test_a_record_of_version_1_loads() -> None:
    """Version 1 dates from before segments could be rewritten."""
    value = (
        b'{"version": 1, "epoch": 2, "first_offset": 5, "first_messages": 7, "segments": '
        b'[{"id": 3, "created_ms": 1, "entries": 4, "messages": 6, "size": 8, "sealed_ms": 9}], '
        b'"cursor_segment": 4, "trash": [1], "properties": {"a": "b"}}'
    )
    record = LogRecord.decode(KEY, value)
    assert record == LogRecord(2, 5, 7, (Segment(3, 1, 4, 6, 8, 9),), 4, (), (1,), {"a": "b"})
    assert record.listed == {1, 3, 4}


def test_a_record_without_the_time_of_its_creation_has_the_version_of_what_it_lists() -> None:
    world = RewrittenLog(30)
    assert b'"version": 1,' in replace(world.log.record, created_ms=0).encode()
    assert b"kept" not in world.log.record.encode()
    world.ack_all_but(3, 29)
    world.reclaim()
    old = replace(world.log.record, created_ms=0)
    assert b'"version": 2,' in old.encode()
    assert b"created_ms" not in old.encode().partition(b'"segments"')[0]
    for record in (old, world.log.record):
        assert LogRecord.decode(KEY, record.encode()) == record


def test_the_time_of_its_creation_stays_with_a_log() -> None:
    world = LogWorld(BY_THREE)
    world.clock.advance(7)
    log = world.open()
    created_ms = world.clock.now_ms()
    for payload in numbered(0, 8):
        world.clock.advance(1)
        world.append(log, payload)
    world.do(log.close())
    world.clock.advance(1)
    again = world.open()
    assert again.record.created_ms == created_ms
    assert b'"version": 5,' in again.record.encode()


def test_the_record_of_a_log_that_was_only_created_is_known_by_its_bytes() -> None:
    for unused in (LogRecord(), LogRecord(created_ms=1 << 50)):
        assert is_unused(unused.encode())
    for used in (
        LogRecord(segments=(Segment(1, 5),)),
        LogRecord(properties={"a": "b"}),
        LogRecord(trash=(3,), created_ms=5),
        LogRecord(cursor_segment=1),
        LogRecord(terminated=True),
    ):
        assert not is_unused(used.encode())


def test_a_record_of_version_5_loads() -> None:
    """Version 5 dates from before damaged entries could be set aside."""
    value = (
        b'{"version": 5, "created_ms": 8, "epoch": 2, "first_offset": 0, "first_messages": 0, '
        b'"segments": '
        b'[{"id": 3, "created_ms": 1, "entries": 4, "messages": 6, "size": 8, "sealed_ms": 9, '
        b'"kept": 1, "kept_in": 5}], "cursor_segment": 4, "trash": [], "properties": {}, '
        b'"terminated": true}'
    )
    record = LogRecord.decode(KEY, value)
    segment = Segment(3, 1, 4, 6, 8, 9, kept=1, kept_in=5)
    assert record == LogRecord(2, 0, 0, (segment,), 4, terminated=True, created_ms=8)


def test_only_a_record_with_damaged_entries_set_aside_is_of_the_new_version() -> None:
    record = LogRecord(segments=(Segment(3, 1, 4), Segment(4, 1, 4)), created_ms=7)
    assert b"lost" not in record.encode()
    lost = record.with_lost({3: [(2, 3), (0, 1)], 9: [(0, 1)]}).with_lost({3: [(1, 2)]})
    assert lost.segments == (Segment(3, 1, 4, lost=((0, 3),)), Segment(4, 1, 4))
    encoded = lost.encode()
    assert b'"version": 6' in encoded
    assert LogRecord.decode(KEY, encoded) == lost
    other = record.with_lost({3: [(0, 1), (2, 3)]})
    assert other.segments[0].lost == ((0, 1), (2, 3))


def test_a_record_of_version_6_loads() -> None:
    """Version 6 dates from before entries could have broker metadata."""
    value = (
        b'{"version": 6, "created_ms": 8, "epoch": 2, "first_offset": 0, "first_messages": 0, '
        b'"segments": [{"id": 3, "created_ms": 1, "entries": 4, "messages": 6, "size": 8, '
        b'"sealed_ms": 9, "lost": [[0, 2]]}], "cursor_segment": 4, "trash": [], "properties": {}}'
    )
    segment = Segment(3, 1, 4, 6, 8, 9, lost=((0, 2),))
    assert LogRecord.decode(KEY, value) == LogRecord(2, 0, 0, (segment,), 4, created_ms=8)


def test_the_record_of_a_log_with_broker_metadata_is_of_a_version_of_its_own() -> None:
    record = LogRecord(created_ms=7, has_broker_metadata=True)
    assert b'"version": 7' in record.encode()
    assert is_unused(record.encode())
    assert LogRecord.decode(KEY, record.encode()) == record
    assert b"broker_metadata" not in replace(record, has_broker_metadata=False).encode()
