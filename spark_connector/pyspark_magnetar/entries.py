"""Reads the entries of a range, and knows when it has all of them."""

from collections.abc import AsyncGenerator, Iterator

import magnetar
from pyspark_magnetar.bridge import Bridge
from pyspark_magnetar.offsets import Range
from pyspark_magnetar.tail import DataLoss

QUEUE_SIZE = 5000
"""Messages received ahead, which is also how far a task may read past its range."""
MAX_ENTRIES = 1000
PATIENCE_S = 5.0
"""Silence after which the broker is asked whether the rest still exists."""
MAX_SILENCES = 12

EntryLists = AsyncGenerator[list[magnetar.Entry], None]


def read_range(bridge: Bridge, wanted: Range) -> Iterator[list[magnetar.Entry]]:
    """Lists of consecutive entries, together exactly the range; DataLoss if its end was deleted."""
    lists = _read_range(bridge.client, wanted)
    try:
        while entries := bridge.run(_next(lists)):
            yield entries
    finally:
        bridge.run(_close(lists))


async def _next(lists: EntryLists) -> list[magnetar.Entry]:
    return await anext(lists, [])


async def _close(lists: EntryLists) -> None:
    await lists.aclose()


async def _read_range(client: magnetar.Client, wanted: Range) -> EntryLists:
    async with await _open(client, wanted) as reader:
        silences = 0
        while True:
            try:
                entries = await reader.receive_entries(MAX_ENTRIES, PATIENCE_S)
            except magnetar.OperationTimeout:
                silences += 1
                await _require_end(reader, wanted)
                if silences == MAX_SILENCES:
                    raise
                continue
            silences = 0
            inside = [entry for entry in entries if entry.position <= wanted.end]
            if inside:
                yield inside
            if entries[-1].position >= wanted.end:
                if not inside or inside[-1].position < wanted.end:
                    raise _lost(wanted, f"{entries[-1].position} was read behind it")
                return


async def _open(client: magnetar.Client, wanted: Range) -> magnetar.EntryReader:
    ledger, entry = wanted.start
    # Before the first entry of a ledger there is no id to start behind.
    start = magnetar.MessageId(ledger, max(entry, 0)) if ledger >= 0 else magnetar.EARLIEST
    return await client.entry_reader(
        wanted.topic, start, inclusive=entry < 0, queue_size=QUEUE_SIZE
    )


async def _require_end(reader: magnetar.EntryReader, wanted: Range) -> None:
    last = await reader.last_message_id()
    if (last.ledger, last.entry) < wanted.end:
        raise _lost(wanted, f"the topic ends at {last.ledger}:{last.entry}")


def _lost(wanted: Range, why: str) -> DataLoss:
    ledger, entry = wanted.end
    return DataLoss(
        f"{wanted.topic}: the batch ends with entry {ledger}:{entry}, which was deleted: {why}. "
        "Retention deleted it, or the topic was recreated; keep messages longer, and start "
        "the query with a new checkpoint"
    )
