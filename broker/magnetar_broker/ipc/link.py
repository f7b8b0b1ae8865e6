"""A link: two processes of one broker ask and notify each other over one stream of bytes.

Either side may ask, and any number of requests may be under way.  A request is answered by the
function of that name in the peer's tables of handlers, with the value that it returns or the error
that it raises; a notice has no answer.  Messages of one side arrive in the order in which they were
sent, and handlers begin in that order: each runs up to where it first waits before the next one
begins.  Answers come in the order in which handlers end.

A coroutine that awaits an answer goes on only after everything that came in the same read has been
handled: a notice that was sent after the answer may be handled before it.

Arguments and results are plain values (`values.py`).  The errors in `refusals.py` arrive as what
they were; any other is logged where it happened, and arrives as `UnknownError`.

A link ends when the peer's process ends or either side closes it.  Then every request that is under
way fails with `ProcessUnavailable`, for it is unknown whether it took place; and so does every
later one, which does not.

What waits here is bounded: requests by `REQUESTS`, output by `OUTPUT_BYTES`.  Neither limit makes a
request wait, and a link always reads: a request often waits for requests in the other direction,
and two sides that wait for each other would wait for ever.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Protocol

from magnetar_broker.base.errors import UnknownError
from magnetar_broker.base.waiters import Waiters
from magnetar_broker.ipc.begin import begin
from magnetar_broker.ipc.frames import BadFrame, FrameReader, Message, encode
from magnetar_broker.ipc.refusals import Refusal, decode_refusal, encode_refusal, is_refusal
from magnetar_storage.errors import ProcessUnavailable
from magnetar_storage.runtime.execution import Clock, Promise, Tasks

logger = logging.getLogger(__name__)

Handler = Callable[..., Any]
"""Takes the arguments of a request or notice; returns the answer, or an awaitable of it."""

REQUESTS = 65_536
"""The most unanswered requests of one side; a further request fails."""
OUTPUT_BYTES = 256 << 20
"""The most output that waits for a peer that does not read; more ends the link."""


class Wire(Protocol):
    """The stream of bytes under a link; `server/runtime/link_socket.py` implements it."""

    def write(self, data: bytes, /) -> None:
        """Send bytes; call `Link.pause` while there are too many that the peer has not read."""

    def close(self) -> None:
        """Send what was written, then close the stream."""


class Link:
    """One end of a link."""

    def __init__(self, peer: str, clock: Clock, tasks: Tasks) -> None:
        """`peer` names the other process in texts, such as "the controller"."""
        self.peer = peer
        self._clock = clock
        self._tasks = tasks
        self._handlers: dict[str, Handler] = {}
        self._wire: Wire | None = None
        self._reader = FrameReader()
        self._numbers = count(1)
        self._under_way: dict[int, tuple[str, Promise]] = {}
        self._output: list[bytes] = []
        self._output_bytes = 0
        self._flushing = False
        self._paused = False
        self._has_ended = False
        self._room = Waiters(clock)
        self._end = Waiters(clock)
        self._at_end: list[Callable[[], None]] = []
        self._by_kind = (self._on_request, self._on_notice, self._on_answer, self._on_refusal)

    # For the two processes ------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    def serve(self, handlers: Mapping[str, Handler]) -> None:
        """Answer requests and take notices of these names, besides those that are served already.

        Call it before the link is connected.  Notices are handled as requests are, but what their
        handlers return is dropped, and what they raise is logged.
        """
        if known := self._handlers.keys() & handlers.keys():
            raise ValueError(f"the link to {self.peer} serves {sorted(known)} already")
        self._handlers.update(handlers)

    def request(self, name: str, *args: Any) -> Promise:
        """Send a request now; await its answer, which is a value or an error.

        `ProcessUnavailable` if the link ends before the answer comes.  `ValueError` if the
        arguments cannot be sent.  A cancelled wait does not stop the request.
        """
        promise = self._clock.promise()
        # promise[without self._has_ended or]: nothing is asked of a peer that is gone
        # promise[without or len(self._under_way) >= REQUESTS]: a link has a limit of requests under
        #   way
        if self._has_ended or len(self._under_way) >= REQUESTS:
            promise.set_exception(self._not_sent(name))
            return promise
        number = next(self._numbers)
        frame = encode((_REQUEST, number, name, args))
        self._under_way[number] = name, promise
        self._send(frame)
        return promise

    def notify(self, name: str, *args: Any) -> None:
        """Send a notice now; after the end it is dropped.

        A sender of notices without end awaits `room` before each.
        """
        self._send(encode((_NOTICE, name, args)))

    async def room(self) -> None:
        """Wait while the peer does not read; return at once when the link has ended."""
        while self._paused and not self._has_ended:
            await self._room.wait()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call `call` after the end of the link and the failure of its requests, or at once."""
        if self._has_ended:
            call()
        else:
            self._at_end.append(call)

    async def ended(self) -> None:
        """Wait until the link has ended."""
        if not self._has_ended:
            await self._end.wait()

    def close(self) -> None:
        """Send what was written before, then end the link."""
        if not self._has_ended:
            self._paused = False
            self._flush()  # promise: what was sent before a close is written
            self.lost()
            if self._wire is not None:
                self._wire.close()

    # For the wire ---------------------------------------------------------------------

    def connected(self, wire: Wire) -> None:
        """Begin to send, to this wire; what it receives goes to `receive`."""
        self._wire = wire
        if self._has_ended:
            wire.close()
        self._flush()

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Handle the bytes of one read; `data` may be reused after the call."""
        try:
            for message in self._reader.read(data):
                if self._has_ended:
                    return
                self._by_kind[_checked_kind(message)](*message[1:])
        except BadFrame as error:
            self._give_up(str(error))

    def pause(self) -> None:
        """Write nothing until `resume`: the peer has not read what was written."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._room.release()
        self._flush()

    def lost(self) -> None:
        """End the link, because the stream has ended: the peer's process ended, or closed it."""
        if self._has_ended:
            return
        self._has_ended = True
        self._output.clear()
        under_way, self._under_way = self._under_way, {}
        for name, promise in under_way.values():
            # promise[without not]: requests to a peer that is gone are answered
            if not promise.done():
                promise.set_exception(_unknown(f"the link to {self.peer} has ended", name))
        self._room.release()
        self._end.release()
        for call in self._at_end:
            call()

    # Receiving ------------------------------------------------------------------------

    def _on_request(self, number: int, name: str, args: tuple[Any, ...]) -> None:
        # promise[begin(self._tasks, -> self._tasks.spawn(]:
        #   notices and requests are handled in the order they came
        begin(self._tasks, self._answer(number, name, args), "link")

    def _on_notice(self, name: str, args: tuple[Any, ...]) -> None:
        begin(self._tasks, self._take(name, args), "link")

    def _on_answer(self, number: int, value: Any) -> None:
        promise = self._answered(number)
        if not promise.done():  # else its waiter was cancelled
            promise.set_result(value)

    def _on_refusal(self, number: int, refusal: Any) -> None:
        # promise: an answer that is neither a value nor an error ends the link
        if not is_refusal(refusal):
            raise BadFrame("a refusal without class, text and fields")
        promise = self._answered(number)
        if not promise.done():
            promise.set_exception(decode_refusal(refusal))

    def _answered(self, number: int) -> Promise:
        # promise: an answer to nothing ends the link
        if number not in self._under_way:
            raise BadFrame(f"an answer to request {number}, which is not under way")
        _, promise = self._under_way.pop(number)
        return promise

    async def _answer(self, number: int, name: str, args: tuple[Any, ...]) -> None:
        try:
            answer = encode((_ANSWER, number, await self._handle(name, args)))
        except Exception as error:
            answer = encode((_REFUSAL, number, self._refusal(name, error)))
        except BaseException:  # cancelled: the peer must not wait for ever
            cancelled = _unknown("the process that serves it is ending", name)
            # promise: a request whose handler is cancelled is answered
            self._send(encode((_REFUSAL, number, encode_refusal(cancelled))))
            raise
        self._send(answer)

    async def _take(self, name: str, args: tuple[Any, ...]) -> None:
        try:
            await self._handle(name, args)
        # promise[Exception -> KeyError]: a notice that fails does not end the handling of others
        except Exception:  # the peer does not wait for anything, and later notices must be handled
            logger.exception("the notice %s of %s failed; this is a defect", name, self.peer)

    async def _handle(self, name: str, args: tuple[Any, ...]) -> Any:
        value = self._handlers[name](*args)
        return await value if isinstance(value, Awaitable) else value

    def _refusal(self, name: str, error: Exception) -> Refusal:
        refusal = encode_refusal(error)
        if refusal is None:
            logger.error(
                "the request %s of %s failed; this is a defect", name, self.peer, exc_info=error
            )
            trouble = f"{name} failed by a defect of the broker: its log has the details"
            refusal = UnknownError.__name__, trouble, {}
        return refusal

    # Sending --------------------------------------------------------------------------

    def _send(self, frame: bytes) -> None:
        """Queue a frame; the output of a turn of the event loop is sent in one write at its end."""
        if self._has_ended:
            return
        self._output.append(frame)
        self._output_bytes += len(frame)
        # promise[self._output_bytes > OUTPUT_BYTES -> not self._output]: a peer that does not read
        #   is given up at a limit
        if self._output_bytes > OUTPUT_BYTES:
            self._give_up(f"it has not read {self._output_bytes} bytes")
        elif not self._flushing:
            self._flushing = True
            self._clock.soon(self._flush, "link")

    def _flush(self) -> None:
        self._flushing = False
        if self._output and self._wire is not None and not self._paused:
            output, self._output, self._output_bytes = self._output, [], 0
            self._wire.write(output[0] if len(output) == 1 else b"".join(output))

    def _give_up(self, why: str) -> None:
        """End the link, and drop pending output, because the peer does not read it."""
        logger.error("the link to %s is closed: %s", self.peer, why)
        self._output.clear()  # promise: a peer that is given up is sent nothing more
        self.close()

    def _not_sent(self, name: str) -> ProcessUnavailable:
        why = "has ended" if self._has_ended else f"has {REQUESTS} requests under way"
        return ProcessUnavailable(f"the link to {self.peer} {why}: {name} was not sent; retry")


def _unknown(why: str, name: str) -> ProcessUnavailable:
    return ProcessUnavailable(f"{why}: whether {name} took place is unknown; retry")


_REQUEST, _NOTICE, _ANSWER, _REFUSAL = range(4)
"""The kinds of messages; the rest of each are the arguments of `Link._on_request` and so on."""
_TYPES: tuple[tuple[type, ...], ...] = (
    (int, int, str, tuple),
    (int, str, tuple),
    (int, int, object),
    (int, int, object),
)
"""The types of the parts of a message, by its kind."""


def _checked_kind(message: Message) -> int:
    """Return the kind of a message; `BadFrame` if it is unknown or has other parts."""
    kind = message[0]
    # promise: a message of an unknown kind ends the link
    if type(kind) is not int or not 0 <= kind < len(_TYPES):
        raise BadFrame("a message of an unknown kind")
    types = _TYPES[kind]
    # promise: a message with other parts than its kind has ends the link
    if len(message) != len(types) or not all(map(isinstance, message, types)):
        raise BadFrame(f"a message of kind {kind} with other parts")
    return kind
