"""The floor: the least that a durable server in Python does for the same frames.

It cuts frames, reads commands with the generated classes, appends every entry to one file,
syncs that file once for all entries that have arrived meanwhile, and answers.  There are no topics,
checks, cursors, caches or limits, and every consumer gets the whole file.

    python -m bench.floor --data-dir DIR
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct
from typing import Any, cast

import click
import uvloop

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import encode

SIZE = Struct(">I")
SIZES = Struct(">II")
RECORD = Struct(">II")
"""The head of each entry: its size and its messages."""
FILE_NAME = "entries"
READ_BYTES = 1 << 20
RECEIVE_BYTES = 256 << 10
JOINED_BYTES = 4 << 10
"""Entries up to this size, on average, are joined before they are written."""
IOV_MAX = 1024
SWITCH_INTERVAL_SECONDS = 0.0005
"""The same as in the broker: the time for which a thread back from the disk waits for the loop."""
MAX_MESSAGE_SIZE = 5 << 20
MAX_FRAME = MAX_MESSAGE_SIZE + (64 << 10)
LEDGER = 1

Sent = tuple["FloorConnection", int, int, int, bytes]
"""Connection, producer id, sequence id, messages, entry."""


class EntryFile:
    """A file with all entries, each after its head; a group is one write and one sync."""

    def __init__(self, path: Path, sync: Callable[[int], None] = os.fdatasync) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._sync = sync
        self._thread = ThreadPoolExecutor(1)
        self._queue: list[Sent] = []
        self._committing: asyncio.Task[None] | None = None
        self._is_closed = False
        self.consumers: set[FloorConsumer] = set()
        self.end = os.fstat(self._fd).st_size
        """The number of durable bytes."""
        self.entries = 0
        """The number of durable entries that were appended since the file was opened."""

    def append(self, sent: list[Sent]) -> None:
        """Queue entries; their receipts follow when they are durable.  Dropped after `close`."""
        if self._is_closed:
            return
        self._queue += sent
        if self._committing is None:
            self._committing = asyncio.get_running_loop().create_task(self._commit())
            self._committing.add_done_callback(self._committed)

    def read(self, at: int) -> bytes:
        """Read durable bytes from an offset on, at most a megabyte."""
        return os.pread(self._fd, min(READ_BYTES, self.end - at), at)

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            group, self._queue = self._queue, []
            self.end += await loop.run_in_executor(self._thread, self._write, group)
            if self._is_closed:
                return
            self._answer(group)
            for consumer in self.consumers:
                consumer.pump()
        # Here and not in a callback: entries that are appended before it runs would be left behind.
        self._committing = None

    def _committed(self, task: "asyncio.Task[None]") -> None:
        """Exit if the floor cannot write: then there is nothing to measure."""
        if not task.cancelled() and task.exception() is not None:
            raise SystemExit(f"the floor failed: {task.exception()}")

    def _write(self, group: list[Sent]) -> int:
        """Write a group, in the thread; the group is durable on return."""
        parts: list[bytes] = []
        for _, _, _, messages, entry in group:
            parts += (RECORD.pack(len(entry), messages), entry)
        size = sum(map(len, parts))
        if size <= JOINED_BYTES * len(group):
            parts = [b"".join(parts)]
        for start in range(0, len(parts), IOV_MAX):
            self._write_all(parts[start : start + IOV_MAX])
        self._sync(self._fd)
        return size

    def _write_all(self, parts: list[bytes]) -> None:
        written = os.writev(self._fd, parts)
        if written < sum(map(len, parts)):
            rest = memoryview(b"".join(parts))[written:]
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def _answer(self, group: list[Sent]) -> None:
        """Send the receipts of a group, in one write per connection."""
        outputs: dict[FloorConnection, list[bytes]] = {}
        answer = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT)
        receipt = answer.send_receipt
        receipt.message_id.ledgerId = LEDGER
        for connection, producer_id, sequence_id, _, _ in group:
            receipt.producer_id = producer_id
            receipt.sequence_id = sequence_id
            receipt.message_id.entryId = self.entries
            self.entries += 1
            body = answer.SerializeToString()
            output = outputs.setdefault(connection, [])
            output += (SIZES.pack(4 + len(body), len(body)), body)
        for connection, output in outputs.items():
            connection.write(b"".join(output))

    def close(self) -> None:
        """Wait for a running group, then close; entries that wait for their turn are dropped."""
        self._is_closed = True
        self._queue.clear()
        self._thread.shutdown()
        os.close(self._fd)


class FloorConsumer:
    """Sends the file from its start, as far as permits allow; an entry may exceed them."""

    def __init__(self, consumer_id: int, file: EntryFile, write: Callable[[bytes], None]) -> None:
        self.permits = 0
        self._file = file
        self._write = write
        self._at = 0
        self._command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
        self._command.message.consumer_id = consumer_id
        self._command.message.message_id.ledgerId = LEDGER
        self._entry = 0

    def pump(self) -> None:
        """Write the entries that may be written now."""
        message_id = self._command.message.message_id
        while self.permits > 0 and self._at < self._file.end:
            data, pos = self._file.read(self._at), 0
            output: list[bytes] = []
            while self.permits > 0 and pos + RECORD.size <= len(data):
                start = pos + RECORD.size
                entry_size, messages = RECORD.unpack_from(data, pos)
                end = start + entry_size
                if end > len(data):
                    break
                message_id.entryId = self._entry
                body = self._command.SerializeToString()
                sizes = SIZES.pack(4 + len(body) + end - start, len(body))
                output += (sizes, body, data[start:end])
                self._entry += 1
                self.permits -= messages
                pos = end
            self._at += pos
            self._write(b"".join(output))


class FloorConnection(asyncio.BufferedProtocol):
    """The connection of one client; it receives after the bytes of an incomplete frame."""

    def __init__(self, file: EntryFile, service_url: Callable[[], str]) -> None:
        self._file = file
        self._service_url = service_url
        self._consumers: dict[int, FloorConsumer] = {}
        self._buffer = memoryview(bytearray(MAX_FRAME + RECEIVE_BYTES))
        self._filled = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._file.consumers.difference_update(self._consumers.values())

    def write(self, data: bytes) -> None:
        """Send an answer, if the client is still connected."""
        if self._transport is not None:
            self._transport.write(data)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled : self._filled + RECEIVE_BYTES]

    def buffer_updated(self, count: int) -> None:
        size = self._filled + count
        if self._filled >= SIZES.size and size < 4 + SIZE.unpack_from(self._buffer)[0]:
            self._filled = size
            return
        buf, pos = bytes(self._buffer[:size]), 0
        sent: list[Sent] = []
        command = pb.BaseCommand()
        while size - pos >= SIZES.size:
            total, command_size = SIZES.unpack_from(buf, pos)
            end = pos + SIZE.size + total
            if end > size:
                break
            mid = pos + SIZES.size + command_size
            command.ParseFromString(buf[pos + SIZES.size : mid])
            if command.type == pb.BaseCommand.SEND:
                send = command.send
                messages, entry = send.num_messages, buf[mid:end]
                sent.append((self, send.producer_id, send.sequence_id, messages, entry))
            else:
                self._control(command)
            pos = end
        self._filled = size - pos
        self._buffer[: self._filled] = buf[pos:]
        if sent:
            self._file.append(sent)

    def _control(self, command: pb.BaseCommand) -> None:
        answer = ANSWERS.get(command.type)
        if answer is not None:
            self.write(encode(answer(command, self._service_url())))
        elif command.type == pb.BaseCommand.FLOW:
            consumer = self._consumers[command.flow.consumer_id]
            consumer.permits += command.flow.messagePermits
            consumer.pump()
        if command.type == pb.BaseCommand.SUBSCRIBE:
            consumer_id = command.subscribe.consumer_id
            consumer = FloorConsumer(consumer_id, self._file, self.write)
            self._consumers[consumer_id] = consumer
            self._file.consumers.add(consumer)


ANSWERS: dict[int, Callable[[pb.BaseCommand, str], Any]] = {
    pb.BaseCommand.CONNECT: lambda command, url: pb.CommandConnected(
        server_version="floor",
        protocol_version=command.connect.protocol_version,
        max_message_size=MAX_MESSAGE_SIZE,
    ),
    pb.BaseCommand.PING: lambda command, url: pb.CommandPong(),
    pb.BaseCommand.PARTITIONED_METADATA: lambda command, url: (
        pb.CommandPartitionedTopicMetadataResponse(
            request_id=command.partitionMetadata.request_id,
            partitions=0,
            response=pb.CommandPartitionedTopicMetadataResponse.Success,
        )
    ),
    pb.BaseCommand.LOOKUP: lambda command, url: pb.CommandLookupTopicResponse(
        request_id=command.lookupTopic.request_id,
        response=pb.CommandLookupTopicResponse.Connect,
        brokerServiceUrl=url,
        authoritative=True,
    ),
    pb.BaseCommand.PRODUCER: lambda command, url: pb.CommandProducerSuccess(
        request_id=command.producer.request_id, producer_name="floor"
    ),
    pb.BaseCommand.SUBSCRIBE: lambda command, url: pb.CommandSuccess(
        request_id=command.subscribe.request_id
    ),
}
"""The answers by type of command; an ACK is not answered."""


async def serve(file: EntryFile) -> tuple[asyncio.Server, str]:
    """Listen on a free loopback port; returns the server and its URL."""
    url = ""
    server = await asyncio.get_running_loop().create_server(
        lambda: FloorConnection(file, lambda: url), "127.0.0.1", 0
    )
    url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    return server, url


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), required=True)
def main(data_dir: Path) -> None:
    """Serve clients until SIGTERM."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    data_dir.mkdir(parents=True, exist_ok=True)

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        file = EntryFile(data_dir / FILE_NAME)
        server, url = await serve(file)
        print(f"Floor is ready\n  clients     {url}\n  durability  fsync", flush=True)
        await stop.wait()
        server.close()
        file.close()

    uvloop.run(run())


if __name__ == "__main__":
    main()
