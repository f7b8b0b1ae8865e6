"""What one consumer lets the broker send ahead: permits, counted in messages, and FLOW."""

from typing import Any

from magnetar.attachment import Attachment
from magnetar.connection import Connection
from magnetar.inbox import Inbox
from magnetar.receive_queue import QueueSize
from magnetar_proto.deliveries import encode_flow


class Permits:
    """The broker may send as many messages as the receive queue has room for.

    With a size of 0 it is asked for one message whenever the application waits.
    """

    def __init__(
        self,
        consumer_id: int,
        attachment: Attachment,
        inbox: Inbox[Any],
        most: int,
        auto_scale: bool,
    ) -> None:
        """`most` messages may be queued; with `auto_scale` it begins with one."""
        self.queued = 0
        """Messages that the application has not taken."""
        self.is_paused = False
        self.size = QueueSize(most, auto_scale)
        self._most = most
        self._id = consumer_id
        self._attachment = attachment
        self._inbox = inbox
        self._owed = 0
        self._claimed = 0
        """Messages of those queued that were given back before the application has taken them."""
        self._granted = 0
        """With a size of 0: what the broker may still send; below zero after a batch."""
        if most == 0:
            inbox.on_demand(self._demand)
        elif auto_scale or inbox.memory.limit:
            inbox.on_demand(self._grow)
            inbox.memory.on_high(self._shrink)

    def begin(self, connection: Connection) -> None:
        """The consumer is registered: let the broker send what the queue has room for."""
        self._owed = self._claimed = self._granted = 0
        room = self.size.now - self.queued
        if self.is_paused or room < 0:
            self._owed = room
        elif room > 0:
            connection.write(encode_flow(self._id, room))

    def came(self, entry_permits: int, queued: int) -> None:
        """An entry came that took so many permits, of which so many messages are queued now."""
        self._granted -= entry_permits
        self.queued += queued
        self.size.received(self.queued)

    def claimed(self, permits: int) -> None:
        """The application waits for so many of those queued, and takes them when it runs next.

        The broker may send others at once, which it does while these are still being read.
        """
        if self._most and permits:
            self._claimed += permits
            self._give_back(permits)

    def taken(self, permits: int) -> None:
        """The application has taken so many messages from the queue."""
        unclaimed = self.dropped(permits)
        if self._most:
            self._give_back(unclaimed)

    def dropped(self, permits: int) -> int:
        """So many messages have left the queue; returns how many of them are not given back."""
        self.queued -= permits
        claimed = min(permits, self._claimed)
        self._claimed -= claimed
        return permits - claimed  # promise[without - claimed]: a permit is given back once

    def left_out(self, permits: int) -> None:
        """So many messages came that the application never takes."""
        if self._most:
            self._give_back(permits)
        else:
            self._inbox.wake()

    def resume(self) -> None:
        """Continue after `is_paused` was set."""
        self.is_paused = False
        if self._most:
            self._give_back(0)
        else:
            self._inbox.wake()

    def end(self) -> None:
        """Ask for nothing any more."""
        self._inbox.memory.forget(self._shrink)
        self._inbox.forget_demand(self._demand, self._grow)

    def _give_back(self, permits: int) -> None:
        self._owed += permits
        if self._owed * 2 < self.size.now or self.is_paused:
            return
        connection = self._attachment.connection
        if connection is not None:
            connection.write_now(encode_flow(self._id, self._owed))
            self._owed = 0

    def _grow(self) -> None:
        """The application waits: have the broker send more at a time, if there is memory."""
        if not self._inbox.memory.is_high:
            self._give_back(self.size.grow())

    def _shrink(self) -> None:
        """Memory is short: have the broker send less at a time."""
        self._owed += self.size.shrink()

    def _demand(self) -> None:
        """With a size of 0: have the broker send one entry, unless it was asked already."""
        connection = self._attachment.connection
        if connection is not None and self._granted <= 0 and not self.is_paused:
            # A batch takes more permits than were granted: make up for the difference.
            connection.write(encode_flow(self._id, 1 - self._granted))
            self._granted = 1
