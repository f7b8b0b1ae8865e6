"""The producer of the official client."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import Any

import magnetar
from magnetar.base.background import Facade, background
from magnetar.compat.arguments import check_arguments
from magnetar.compat.checks import check
from magnetar.compat.enums import Result
from magnetar.compat.exceptions import (
    AlreadyClosed,
    ProducerQueueIsFull,
    result_of,
    translated,
    unsupported,
)
from magnetar.compat.listening import CallbackThread
from magnetar.compat.messages import MessageId
from magnetar.compat.schema import Schema

Callback = Callable[[Result, MessageId], None]
Settle = Callable[[Exception | None, MessageId], None]
"""Receives the error of a message that was not stored, or the message's id."""
NO_ID = MessageId()


class Outbox:
    """The queue of messages from the application's threads to a producer, in order.

    At most `limit` messages are queued or without receipt: further ones wait if `blocks`, else
    they fail.
    """

    def __init__(self, producer: magnetar.Producer, limit: int, blocks: bool) -> None:
        self._producer = producer
        self._limit = limit
        self._blocks = blocks
        self._changed = threading.Condition()
        self._waiting: deque[tuple[magnetar.Outgoing, Settle]] = deque()
        self._pending = 0
        self._is_draining = False
        self._for_room: asyncio.Task[None] | None = None
        self._is_closed = False

    def put(self, message: magnetar.Outgoing, settle: Settle) -> None:
        """Send a message; `settle` is called in the event loop, or at once if the queue is full."""
        with self._changed:
            while self._pending >= self._limit and self._blocks and not self._is_closed:
                self._changed.wait()
            is_closed, is_full = self._is_closed, self._pending >= self._limit
            if not (is_closed or is_full):
                self._pending += 1
                self._waiting.append((message, settle))
                if self._is_draining:
                    return
                self._is_draining = True
        if is_closed:
            settle(AlreadyClosed("the producer is closed"), NO_ID)
        elif is_full:
            settle(ProducerQueueIsFull(f"{self._limit} messages have no receipt yet"), NO_ID)
        else:
            background.loop().call_soon_threadsafe(self.drain)

    def close(self) -> None:
        """Accept no more messages; threads that wait for room fail."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # -- in the event loop

    def drain(self) -> None:
        """Pass queued messages to the producer as long as it has room."""
        if self._for_room is not None:
            return
        while True:
            with self._changed:
                if not self._waiting:
                    self._is_draining = False
                    return
                message, settle = self._waiting.popleft()
            try:
                receipt = self._producer.send_message_nowait(message)
            except magnetar.QueueFull as error:  # one partition is full
                if self._blocks:
                    self._waiting.appendleft((message, settle))
                    self._for_room = asyncio.create_task(self._send_when_room())
                    return
                self._settle(settle, error, NO_ID)
            except Exception as error:  # any error is an outcome, which the application waits for
                self._settle(settle, error, NO_ID)
            else:
                receipt.on_done(partial(self._settled, settle))

    async def _send_when_room(self) -> None:
        message, settle = self._waiting.popleft()
        message_id, failure = NO_ID, None
        try:
            receipt = await self._producer.enqueue(message)
        except Exception as error:  # the application gets any error by its callback
            failure = error
        self._for_room = None
        if failure is not None:
            self._settle(settle, failure, message_id)
        else:
            receipt.on_done(partial(self._settled, settle))
        self.drain()

    async def flush(self) -> None:
        """Wait until every message is stored or has failed."""
        self.drain()
        while self._for_room is not None:
            await self._for_room
        await self._producer.flush()

    def _settled(self, settle: Settle, receipt: magnetar.Receipt) -> None:
        try:
            found = MessageId.wrap(receipt.id())
        except Exception as error:
            self._settle(settle, error, NO_ID)
        else:
            self._settle(settle, None, found)

    def _settle(self, settle: Settle, error: Exception | None, message_id: MessageId) -> None:
        with self._changed:
            self._pending -= 1
            self._changed.notify()
        settle(error, message_id)


class Producer:
    """Publishes messages to a topic; created by `Client.create_producer`."""

    _facade: Facade[magnetar.Producer]
    _schema: Schema
    _outbox: Outbox
    _forget: Callable[[Outbox], None]
    _callbacks: CallbackThread

    def topic(self) -> str:
        """Return the full name of the topic."""
        return self._facade.wrapped.topic

    def producer_name(self) -> str:
        """Return the name of the producer: the chosen one, or the one assigned by the broker."""
        return self._facade.wrapped.name or ""

    def last_sequence_id(self) -> int:
        """Return the highest sequence id that the broker has stored; -1 if none."""
        return self._facade.wrapped.last_sequence_id

    def send(
        self,
        content: Any,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> MessageId:
        """Publish a message, and wait until it is stored; None as content is a null value."""
        message = self._build_msg(locals())
        outcome: Future[MessageId] = Future()

        def settle(error: Exception | None, message_id: MessageId) -> None:
            if error is None:
                outcome.set_result(message_id)
            else:
                outcome.set_exception(error)

        self._put(message, settle)
        return self._outcome(outcome)

    @translated
    def _outcome(self, outcome: Future[MessageId]) -> MessageId:
        return outcome.result()

    def send_async(
        self,
        content: Any,
        callback: Callback,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> None:
        """Publish a message; a thread of the client calls `callback(result, message_id)`.

        An exception in the callback is logged.
        """
        message = self._build_msg(locals())
        callbacks = self._callbacks

        def settle(error: Exception | None, message_id: MessageId) -> None:
            result = Result.Ok if error is None else result_of(error)
            callbacks.call(partial(callback, result, message_id))

        self._put(message, settle)

    def flush(self) -> None:
        """Wait until all messages have an outcome and all callbacks were called."""
        self._run_flush()
        self._callbacks.drain()  # promise: flush returns after the callbacks were called

    @translated
    def _run_flush(self) -> None:
        self._facade.run(self._outbox.flush)

    def close(self) -> None:
        """Flush, and close the producer."""
        self._close()
        self._callbacks.drain()

    @translated
    def _close(self) -> None:
        self._outbox.close()
        self._facade.run(self._outbox.flush)
        self._forget(self._outbox)
        self._facade.run(self._facade.wrapped.close)

    def is_connected(self) -> bool:
        """Tell whether the producer is registered with the broker at the moment."""
        return self._facade.wrapped.is_connected

    @translated
    def _put(self, message: magnetar.Outgoing, settle: Settle) -> None:
        self._facade.check_not_forked()
        self._outbox.put(message, settle)

    def _build_msg(self, given: Mapping[str, Any]) -> magnetar.Outgoing:
        """Return the message that the arguments of `send` describe."""
        check_arguments(Producer.send, given)
        for option in ("replication_clusters", "disable_replication"):
            if given[option]:
                raise unsupported(option, "leave it out: nothing is replicated")
        content, deliver_at = given["content"], given["deliver_at"]
        data = b""
        if content is not None:
            data = self._schema.encode(content)
            check(bytes, data, "data")
        if given["deliver_after"]:
            delay_ms = round(given["deliver_after"].total_seconds() * 1000)
            deliver_at = self._facade.wrapped.clock.now_ms() + delay_ms
        ordering_key = given["ordering_key"]
        return magnetar.Outgoing(
            data,
            key=given["partition_key"] or None,
            ordering_key=ordering_key.encode() if ordering_key else None,
            properties=given["properties"] or {},
            event_time_ms=given["event_timestamp"] or 0,
            deliver_at_ms=deliver_at or 0,
            sequence_id=given["sequence_id"],
            is_null=content is None,
        )
