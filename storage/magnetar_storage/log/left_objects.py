"""Objects of deleted logs that could not be deleted, because their place could not be reached.

A log's deletion does not wait for a place that may never come back.  Its objects are listed in the
metadata store first, under keys of their own, and their deletion is tried again from there.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import MetadataStore, SegmentCopy

logger = logging.getLogger(__name__)

LEFT: Final = "/left-objects/"
"""The prefix of the keys; the name of the first object follows, which no other one ever has."""
PART: Final = 1000
"""The most objects of one key."""
NAMED: Final = 10
"""The most objects that a line of the log names."""


@dataclass(frozen=True, slots=True)
class LeftObjects:
    """Objects of one deleted log that are to be deleted."""

    log: str
    """The key that the log's record had."""
    left_ms: int
    """The time at which the log was deleted."""
    places: Mapping[str, Sequence[str]]
    """The names of the objects by their place."""

    def __len__(self) -> int:
        """Return the number of objects."""
        return sum(map(len, self.places.values()))

    def encode(self) -> bytes:
        """Encode the stored JSON."""
        return json.dumps(
            {"log": self.log, "left_ms": self.left_ms, "places": dict(self.places)}
        ).encode()

    @classmethod
    def decode(cls, key: str, value: bytes) -> "LeftObjects":
        """Decode the value stored under `key`; `Corrupt` if it cannot be read."""
        try:
            fields: dict[str, Any] = json.loads(value)
            places = {
                str(place): list(map(str, names)) for place, names in fields["places"].items()
            }
            return cls(str(fields["log"]), int(fields["left_ms"]), places)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Corrupt(key, 0, f"the list of objects cannot be read: {error}") from error


async def leave(
    metadata: MetadataStore, log: str, copies: Sequence[SegmentCopy], now_ms: int, why: str
) -> None:
    """List the objects of a log that is being deleted; durable on return.

    `why` is the reason why they cannot be deleted now.  May be repeated.
    """
    for start in range(0, len(copies), PART):
        part = copies[start : start + PART]
        places: dict[str, list[str]] = {}
        for copy in part:
            places.setdefault(copy.place, []).append(copy.name)
        await metadata.put(LEFT + part[0].name, LeftObjects(log, now_ms, places).encode())
    some = ", ".join(f"{copy.name} in {copy.place}" for copy in copies[:NAMED])
    logger.warning(
        "%d objects of %s, which is deleted, cannot be deleted now and are tried again later: %s; "
        "they are %s%s",
        len(copies), log, why, some, "" if len(copies) <= NAMED else ", ...",
    )  # fmt: skip
