"""JSON objects in the metadata store, changed by compare-and-set; unknown fields stay.

A store that is away for a moment is not handled here: the store that the broker gets waits for it
(`RetryingMetadata`), so an error is either a refusal or an outage that lasts.
"""

import json
from collections.abc import Callable
from typing import Any

from magnetar_storage.errors import BadVersion
from magnetar_storage.interfaces import ABSENT, PAGE, MetadataStore

Fields = dict[str, Any]


async def read_record(metadata: MetadataStore, key: str) -> Fields | None:
    """Return the object; None if it does not exist."""
    found = await metadata.get(key)
    return None if found is None else json.loads(found.value)


async def has_record(metadata: MetadataStore, key: str) -> bool:
    """Return whether a record exists; cheaper than reading it, because stores know their keys."""
    return await metadata.list(key, "", 1) == [key]


async def create_record(metadata: MetadataStore, key: str, fields: Fields) -> bool:
    """Store a new object, durably; return False and keep the present one if it exists.

    True may also mean that a concurrent request has stored an equal object.
    """
    try:
        await metadata.put(key, json.dumps(fields).encode(), ABSENT)
    except BadVersion:
        return False
    return True


async def change_record(
    metadata: MetadataStore, key: str, change: Callable[[Fields], Fields]
) -> bool:
    """Replace a record durably by what `change` returns; return False if it does not exist."""
    while (found := await metadata.get(key)) is not None:
        value = json.dumps(change(json.loads(found.value))).encode()
        try:
            await metadata.put(key, value, found.version)
        except BadVersion:
            continue  # a concurrent request changed it
        return True
    return False


async def next_number(metadata: MetadataStore, key: str, nonce: str) -> int:
    """Return a number that no other call with this key returns, even after restarts.

    `nonce` is a text that no other call has.
    """
    number = 0

    def counted(fields: Fields) -> Fields:
        nonlocal number
        number = fields["count"] + 1
        # promise[without , "nonce": nonce]: two processes that count at once get two numbers
        return {**fields, "count": number, "nonce": nonce}

    while not await change_record(metadata, key, counted):
        await create_record(metadata, key, {"count": 0})
    return number


async def keys_under(metadata: MetadataStore, prefix: str) -> list[str]:
    """Return the keys that begin with a prefix, without it, in order."""
    keys: list[str] = []
    while True:
        page = await metadata.list(prefix, keys[-1] if keys else "")
        keys += page
        if len(page) < PAGE:
            return [key[len(prefix) :] for key in keys]
