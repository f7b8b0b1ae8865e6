"""Completes a chunked message of which a consumer has the first chunks, before it is disconnected.

Clients in C++, and those built on it, keep the first half of it then.  When the whole message comes
after the client has connected again, they drop it.
"""

from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.dispatch.frames import FrameCache
from magnetar_proto.chunks import chunk_of, chunks_among
from magnetar_storage.interfaces import Run
from magnetar_storage.log.log import Log

READ_ENTRIES, READ_BYTES = 100, 1 << 20
MOST_BYTES = 32 << 20
"""Bytes that are read for the missing chunks of one message; without the rest it stays half."""


async def complete_message(log: Log, consumer: Consumer, frames: FrameCache) -> None:
    """Send the consumer the chunks that are missing of the message that it was sent last.

    That is in any number of entries behind it, whatever the permits are: its client has room for
    the message, which it began.  Nothing else may be sent to the consumer meanwhile.
    """
    last = log.offset_of(*consumer.last_sent)
    if last is None:
        return
    sent = await _read(log, last)
    begun = chunk_of(sent.payloads[0]) if sent.payloads and sent.first == last else None
    if begun is None or begun.is_last:
        return
    offset, size = last + 1, 0
    while size < MOST_BYTES and offset < log.visible_end and not consumer.closed:
        run = await _read(log, offset)
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


async def _read(log: Log, offset: int) -> Run:
    kept = log.tail.get(offset, READ_ENTRIES, READ_BYTES)
    return kept or await log.entries.read(offset, READ_ENTRIES, READ_BYTES)
