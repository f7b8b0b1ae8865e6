"""Segments that no log lists and copies of damaged entries, kept for a time before they go."""

import json
from collections.abc import Sequence
from typing import Final

from magnetar_storage.interfaces import DamagedEntries
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.session_store import packs

SUFFIX: Final = ".damaged"


def put_damaged(
    objects: Objects, prefix: str, number: int, entries: Sequence[DamagedEntries], why: str,
    now_ms: int,
) -> None:  # fmt: skip
    """Store copies of damaged entries, each behind one line that describes it; blocks.

    `number` is that of an object: no other call has it.
    """
    for index, one in enumerate(entries):
        line = json.dumps(
            {
                "log": one.log, "segment": one.segment, "first_entry": one.first,
                "last_entry": one.last, "why": one.why, "set_aside": why, "at_ms": now_ms,
                "bytes": len(one.data),
            }
        )  # fmt: skip
        name = f"{prefix}{now_ms:016x}-{number:016x}-{index}{SUFFIX}"
        packs.store(objects, name, [line.encode(), b"\n", one.data])


def delete_damaged(objects: Objects, prefix: str, before_ms: int) -> None:
    """Delete copies of damaged entries that were stored before a time; blocks."""
    for listed in list(objects.list(prefix)):
        at = listed.name.removeprefix(prefix).partition("-")[0]
        if listed.name.endswith(SUFFIX) and int(at, 16) < before_ms:
            objects.delete(listed.name)
