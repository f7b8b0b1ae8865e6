"""Completes chunked messages that consumers have received in part, before they are disconnected.

Clients in C++, and those built on it, would keep the first half of such a message, and drop the
whole message when it comes after they have connected again.
"""

import logging
from collections.abc import Sequence

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_proto.chunks import chunk_of, chunks_among
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log

logger = logging.getLogger(__name__)

READ_ENTRIES, READ_BYTES = 100, 1 << 20
MOST_BYTES = 32 << 20
"""The most bytes that are read for the missing chunks of one message; beyond them it stays half."""


async def complete_messages(
    log: Log, cursor: Cursor, consumers: Sequence[Consumer], frames: FrameCache
) -> None:
    """Complete the messages of consumers, and send them nothing else until `leaving` is reset.

    A chunk that cannot be read is logged: then a client may keep the half of a message.
    """
    for consumer in consumers:
        consumer.leaving = True
    for consumer in consumers:
        try:
            # promise: who is disconnected in good order has no half of a chunked message
            await _complete(log, cursor, consumer, frames)
        except StorageError as error:
            what = "%s: consumer %s has half of a chunked message, and cannot get the rest: %s"
            logger.warning(what, log.key, consumer.name, error)


async def _complete(log: Log, cursor: Cursor, consumer: Consumer, frames: FrameCache) -> None:
    """Send the chunks that are missing of the message that was sent last.

    They are in any number of entries behind it, and are sent whatever the permits are: the client
    has room for the message, which it began.
    """
    last = log.offset_of(*consumer.last_sent)
    if last is None or cursor.next_unacked(last) != last:  # what was acknowledged was whole
        return
    sent = await _read(log, last, 1)
    begun = chunk_of(sent.payloads[0]) if sent.payloads and sent.first == last else None
    if begun is None or begun.is_last:
        return
    offset, size = last + 1, 0
    while size < MOST_BYTES and offset < log.visible_end and not consumer.closed:
        run = await _read(log, offset, READ_ENTRIES)
        for index, chunk in chunks_among(run.payloads).items():
            if chunk.uuid == begun.uuid and not consumer.closed:
                ledger, entry = log.position(run.first + index)
                payloads = run.payloads[index : index + 1]
                consumer.give_run(frames, ledger, entry, payloads, run.counts[index])
                if chunk.is_last:
                    return
        if not run.payloads:
            return
        offset = run.first + len(run.payloads)
        size += sum(map(len, run.payloads))


async def _read(log: Log, offset: int, entries: int) -> Run:
    kept = log.tail.get(offset, entries, READ_BYTES)
    return kept or await log.entries.read(offset, entries, READ_BYTES)
