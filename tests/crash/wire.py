"""A raw connection for loads: no thread, no task, one callback a read.

Not `raw_client`, which blocks: a load has thousands of messages under way on many connections.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.commands import FIELDS, decode, encode
from magnetar_proto.frames import Frame, FrameDecoder
from magnetar_proto.sends import decode_receipt
from raw_client import Closed, process_of

MAX_FRAME = 6 << 20
PROTOCOL_VERSION = 21
Kind = pb.BaseCommand
ENDING = pb.ServiceNotReady
"""What is answered while another process of the broker ends; clients ask again.  Whether an
acknowledgement that is answered so was done is unknown."""


class Gone(Exception):
    """The connection ended, or the broker refused something and is left."""


class Refused(Gone):
    """The broker refused something: that does not take effect."""


class Wire(asyncio.Protocol):
    """Make it with `dial`; everything that waits on it raises `Gone` when it ends."""

    def __init__(self) -> None:
        self.on_receipt: Callable[[int, int, int, int], None]
        """Takes producer id, sequence id, ledger, entry."""
        self.on_messages: Callable[[list[Frame]], None]
        self.on_writable: Callable[[], None] = lambda: None
        self.writable = True
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection has ended; its result is None, never an exception."""
        self.why = ""
        self.lost = False
        """Whether it was not this side that ended it."""
        self.moves = 0
        """How many moves of its topic's bundle were over before it was made."""
        self._decoder = FrameDecoder(MAX_FRAME)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._connected: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport
        self._requests = 0

    # asyncio's side -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = not self.gone.done()
        self.end(str(error or "closed by the broker"))

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self.on_writable()

    def data_received(self, data: bytes) -> None:
        messages = []
        for frame in self._decoder.feed(data):
            kind, buf, start, mid, _ = frame
            if kind == Kind.SEND_RECEIPT:
                producer_id, sequence_id, _, ledger, entry = decode_receipt(buf, start, mid)
                self.on_receipt(producer_id, sequence_id, ledger, entry)
            elif kind == Kind.MESSAGE:
                messages.append(frame)
            else:
                self._control(kind, getattr(decode(buf, start, mid), FIELDS[kind]))
        if messages and not self.gone.done():
            self.on_messages(messages)

    def _control(self, kind: int, command: Any) -> None:
        if kind == Kind.PING:
            self.write(encode(pb.CommandPong()))
        elif kind == Kind.CONNECTED:
            self._connected.set_result(command)
        elif (waiting := self._answers.pop(getattr(command, "request_id", -1), None)) is not None:
            if not waiting.done():  # else this side has ended the connection
                waiting.set_result(command)
        elif kind != Kind.ACTIVE_CONSUMER_CHANGE:
            # The topic failed or a message was refused: come back like an official client.
            self.end(f"{FIELDS[kind]}: {command}")

    # The load's side ----------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send; look at `writable` before sending much."""
        self._transport.write(data)

    def end(self, why: str) -> None:
        """Close; waiters get `Gone`."""
        if not self.gone.done():
            self.why = why
            self.gone.set_result(None)
            self._transport.close()
            for waiting in (self._connected, *self._answers.values()):
                waiting.cancel()

    async def hello(self, process: str | None) -> None:
        """The handshake; `process` is the address of the broker's process to be served by."""
        self.write(
            encode(
                pb.CommandConnect(
                    client_version="raw",
                    protocol_version=PROTOCOL_VERSION,
                    proxy_to_broker_url=process,
                )
            )
        )
        await self._awaited(self._connected)

    async def ask(self, command: Any) -> Any:
        """Send a request and return its answer; `Refused` for an ERROR."""
        request_id = command.request_id = self.next_request()
        answer = self.answer_to(request_id)
        self.write(encode(command))
        reply = await self._awaited(answer)
        if isinstance(reply, pb.CommandError):
            self.end(f"refused: {reply}")
            raise Refused(self.why)
        return reply

    def next_request(self) -> int:
        """A request id that was not used on this connection."""
        self._requests += 1
        return self._requests

    def answer_to(self, request_id: int) -> "asyncio.Future[Any]":
        """The answer that will carry this id; cancelled when the connection ends."""
        future = self._answers[request_id] = asyncio.get_running_loop().create_future()
        if self.gone.done():
            future.cancel()
        return future

    async def _awaited(self, future: "asyncio.Future[Any]") -> Any:
        try:
            return await future
        except asyncio.CancelledError:
            if self.gone.done():
                raise Gone(self.why) from None
            raise


async def dial(port: int, process: str | None = None) -> Wire:
    """A connection after its handshake; `Gone` or OSError if that fails."""
    _, wire = await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", port)
    try:
        await wire.hello(process)
    except BaseException:
        wire.end("no handshake")
        raise
    return wire


async def dial_owner(port: int, topic: str) -> Wire:
    """A connection to the process that serves a topic; `Gone` or OSError if that fails."""
    wire = await dial(port)
    try:
        found = await wire.ask(pb.CommandLookupTopic(topic=topic, request_id=0))
        process = process_of(found)
    except Closed as error:
        raise Gone(str(error)) from error
    finally:
        wire.end("looked up")
    return await dial(port, process)
