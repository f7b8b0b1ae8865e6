"""Values of the metadata store that are not log records: refused as damaged, or usable.

Input: the value.
"""

import json
from collections.abc import Iterator
from typing import Final

from fakes.logs import BY_THREE, KEY, LogWorld, numbered
from fakes.origins import MESSAGES
from magnetar_storage.errors import Corrupt, StorageError
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord

LONGEST: Final = 1024


def run(data: bytes) -> None:
    try:
        record = LogRecord.decode(KEY, data)
    except Corrupt:
        return
    assert LogRecord.decode(KEY, record.encode()) == record
    world = LogWorld(BY_THREE)
    stored = world.do(world.store.create(MESSAGES))
    stored.append(numbered(0, 3), [1] * 3, lambda error: None)
    world.do(world.metadata.put(KEY, data))
    try:
        log = world.do(Log.open(KEY, world.engine, create=False))
        assert log is not None
        world.do(log.rollover.start_writing())
        world.append(log, b"appended")
    except StorageError:
        return
    assert world.do(log.entries.read(log.end - 1, 1, 1 << 20)).payloads == [b"appended"]


def seeds() -> Iterator[bytes]:
    world = LogWorld(BY_THREE)
    log = world.open()
    for offset in range(0, 9, 2):
        world.append(log, *numbered(offset, offset + 2))
    found = world.do(world.metadata.get(KEY))
    assert found is not None
    yield found.value
    yield LogRecord(properties={"a": "b"}, trash=(1, 2)).encode()
    yield b'{"version": 1, "segments": [{"id": 1, "created_ms": 0}], "trash": []}'
    yield b'{"version": 2}'
    whole = {"id": 1, "created_ms": 0, "entries": 3, "messages": 3, "size": 3, "sealed_ms": 1}
    rewritten = [whole | {"kept": 1, "kept_in": 1}, whole | {"id": 2, "kept": 0, "kept_in": None}]
    yield json.dumps({"version": 2, "segments": rewritten, "trash": [3]}).encode()
