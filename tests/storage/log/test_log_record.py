"""The record of a log: its bytes, and what is none."""

import pytest

from fakes.logs import BY_THREE, KEY, LogWorld, numbered
from fakes.rewritten import RewrittenLog
from magnetar_storage.errors import Corrupt
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord, Segment


def test_the_record_survives_encoding() -> None:
    world = LogWorld(BY_THREE)
    log = world.open()
    for payload in numbered(0, 8):
        world.append(log, payload)
    world.do(log.stored.change_properties(lambda _: {"clé": "valeur"}))
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
        (b'{"version": 5, "segments": [], "trash": [], "surprise": 0}', "record version 5"),
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
    """As written before segments could be rewritten."""
    value = (
        b'{"version": 1, "epoch": 2, "first_offset": 5, "first_messages": 7, "segments": '
        b'[{"id": 3, "created_ms": 1, "entries": 4, "messages": 6, "size": 8, "sealed_ms": 9}], '
        b'"cursor_segment": 4, "trash": [1], "properties": {"a": "b"}}'
    )
    record = LogRecord.decode(KEY, value)
    assert record == LogRecord(2, 5, 7, (Segment(3, 1, 4, 6, 8, 9),), 4, (), (1,), {"a": "b"})
    assert record.listed == {1, 3, 4}


def test_only_a_record_with_rewritten_segments_is_of_the_new_version() -> None:
    world = RewrittenLog(30)
    assert b'"version": 1' in world.log.record.encode()
    assert b"kept" not in world.log.record.encode()
    world.ack_all_but(3, 29)
    world.reclaim()
    encoded = world.log.record.encode()
    assert b'"version": 2' in encoded
    assert LogRecord.decode(KEY, encoded) == world.log.record
