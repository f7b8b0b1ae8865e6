"""Completes chunked messages that consumers have received in part, before they are disconnected.

Clients in C++, and those built on it, would keep the first half of such a message, and drop the
whole message when it comes after they have connected again.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_proto.chunks import Chunk, chunks_among
from magnetar_storage.cursors.cursor import Cursor
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log

logger = logging.getLogger(__name__)

READ_ENTRIES, READ_BYTES = 100, 1 << 20
MOST_BYTES = 32 << 20
"""The most bytes that are read for the missing chunks of one message; beyond them it stays half."""
LOOK_BACK = 100
"""The number of entries before the last one in which beginnings of messages are looked for."""


async def complete_messages(
    log: Log, cursor: Cursor, consumers: Sequence[Consumer], frames: FrameCache
) -> None:
    """Complete the messages of consumers, and send them nothing else until `leaving` is reset.

    A chunk that cannot be read is logged: then a client may keep the half of a message.
    """
    # All of them first: while one is completed, which reads, the others must not begin messages.
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
    """Send the chunks that are missing of the messages that were sent in part.

    Any number of entries may lie between them.  They are sent whatever the permits are: the client
    has room for the messages, which it began.
    """
    begun = await _begun(log, cursor, consumer)
    # From the place after the earliest of them on: the chunks of several producers are mixed.
    offset, size = min((part.offset for part in begun.values()), default=log.end) + 1, 0
    while begun and size < MOST_BYTES and offset < log.visible_end:
        run = await _read(log, offset, READ_ENTRIES)
        for index, chunk in chunks_among(run.payloads).items():
            if consumer.closed:
                return
            part = begun.get(chunk.uuid)
            if part is not None and chunk.number == part.number + 1:
                at = run.first + index
                # After a redelivery of an earlier entry it has later chunks already.
                if not (cursor.is_acked(at) or at in consumer.pending):
                    ledger, entry = log.position(at)
                    payloads = run.payloads[index : index + 1]
                    consumer.send_run(frames, ledger, entry, payloads, run.counts[index])
                _note(begun, chunk, at)
        if not run.payloads:
            return
        offset = run.first + len(run.payloads)
        size += sum(map(len, run.payloads))


class _Part(NamedTuple):
    """The last chunk of a message that was sent."""

    offset: int
    number: int


async def _begun(log: Log, cursor: Cursor, consumer: Consumer) -> dict[bytes, _Part]:
    """Return the messages that a consumer has in part, by uuid.

    They end with the entry that was sent last, or are among those before it: with chunks of several
    producers, or other messages, in between.  Empty for a consumer that gets some entries only.
    """
    last = log.offset_of(*consumer.last_sent)
    begun: dict[bytes, _Part] = {}
    if last is None or cursor.next_unacked(log.first_offset) > last or _is_selective(consumer):
        return begun
    offset, size = max(last - LOOK_BACK, log.first_offset), 0
    with suppress(StorageError):  # damage does not prevent what follows
        while offset < last and size < READ_BYTES:
            run = await _read(log, offset, last - offset)
            _note_all(begun, run, cursor, consumer)
            if not run.payloads:
                break
            offset = run.first + len(run.payloads)
            size += sum(map(len, run.payloads))
    _note_all(begun, await _read(log, last, 1), cursor, consumer)
    return begun


def _is_selective(consumer: Consumer) -> bool:
    """Return whether entries before the last one may have been left out for a consumer."""
    has_ranges = not consumer.keeps_pending and bool(consumer.key_shared.ranges)
    return has_ranges or consumer.compacted is not None


def _note_all(begun: dict[bytes, _Part], run: Run, cursor: Cursor, consumer: Consumer) -> None:
    """Note the chunks of a run that were sent to a consumer."""
    for index, chunk in chunks_among(run.payloads).items():
        offset = run.first + index
        if cursor.is_acked(offset):
            begun.pop(chunk.uuid, None)  # what was acknowledged was whole, or is not wanted
        elif not consumer.keeps_pending or offset in consumer.pending:
            _note(begun, chunk, offset)


def _note(begun: dict[bytes, _Part], chunk: Chunk, offset: int) -> None:
    if chunk.is_last:
        begun.pop(chunk.uuid, None)
    else:
        begun[chunk.uuid] = _Part(offset, chunk.number)


async def _read(log: Log, offset: int, entries: int) -> Run:
    kept = log.tail.get(offset, entries, READ_BYTES)
    return kept or await log.entries.read(offset, entries, READ_BYTES)
