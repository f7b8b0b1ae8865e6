"""The way of changes from a server to a watch, over every loss of the connection."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final

from magnetar_broker.server.metadata_stores.engine import Batch, Position
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Change

logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""The seconds before the first attempt to go on, and the most; the pauses in between double."""


async def feed(
    changes: Callable[[Position | None], AsyncGenerator[Batch]],
    deliver: Callable[[Sequence[Change] | None], Awaitable[bool]],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Deliver all changes, in order and without a gap; return when `deliver` returns False.

    `changes(after)` is `MetadataEngine.changes` of one prefix.  `deliver(None)` means that changes
    may have been missed; it is called first.
    """
    position: Position | None = None
    reported = ""
    pause = FIRST_PAUSE
    while True:
        try:
            # Closed at once if this is cancelled: it has a connection.
            async with aclosing(changes(position)) as batches:
                async for batch in batches:
                    pause, reported = FIRST_PAUSE, ""
                    if not await deliver(batch.changes):
                        return
                    # promise: changes go on where they were interrupted
                    position = batch.position
        except StorageError as error:
            # Refused access included: an operator may grant it again, and the reader has all
            # changes then.
            if str(error) != reported:
                reported = str(error)
                logger.warning("changes of the metadata are awaited again: %s", error)
        await sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
