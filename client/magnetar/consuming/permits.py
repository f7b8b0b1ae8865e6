"""Permits: the number of messages that the broker may send one consumer ahead, and FLOW."""

from typing import Any

from magnetar.connections.connection import Connection
from magnetar.connections.registration import Registration
from magnetar.consuming.inbox import Inbox
from magnetar.consuming.receive_queue import QueueSize
from magnetar_proto.deliveries import encode_flow


class Permits:
    """Lets the broker send as many messages as the receive queue has room for.

    With a size of 0, it requests one message whenever the application waits.
    """

    def __init__(
        self,
        consumer_id: int,
        registration: Registration,
        inbox: Inbox[Any],
        most: int,
        auto_scale: bool,
    ) -> None:
        """`most` messages may be queued; with `auto_scale` the size starts at one."""
        self.queued = 0
        """The number of messages that the application has not taken."""
        self.is_paused = False
        self.size = QueueSize(most, auto_scale)
        self._most = most
        self._id = consumer_id
        self._registration = registration
        self._inbox = inbox
        self._owed = 0
        self._claimed = 0
        """The number of queued messages whose permits were returned before they are taken."""
        self._granted = 0
        """With a size of 0: the permits that the broker has left; negative after a batch."""
        if most == 0:
            inbox.on_demand(self._demand)
        elif auto_scale or inbox.memory.limit:
            inbox.on_demand(self._grow)
            inbox.memory.on_high(self._shrink)

    def begin(self, connection: Connection) -> None:
        """Grant the broker permits for the free room: the consumer was registered."""
        # A registration begins without permits, whatever the former one had or was owed.
        self._owed = self._claimed = self._granted = 0
        room = self.size.now - self.queued
        if self.is_paused or room < 0:
            # Below 0 if the queue was filled before its size was halved: that many permits are
            # kept back when messages are taken.
            self._owed = room
        elif room > 0:
            connection.write(encode_flow(self._id, room))

    def entry_received(self, entry_permits: int, queued: int) -> None:
        """Count an entry that took `entry_permits`, of which `queued` messages are now queued."""
        self._granted -= entry_permits
        self.queued += queued
        self.size.received(self.queued)

    def claimed(self, permits: int) -> None:
        """Return the permits of queued messages that a waiting application is about to take.

        The broker can send others at once, while the application processes these.
        """
        if self._most and permits:
            self._claimed += permits
            self._give_back(permits)

    def taken(self, permits: int) -> None:
        """Count messages that the application has taken from the queue; return their permits."""
        unclaimed = self.dropped(permits)
        if self._most:
            self._give_back(unclaimed)

    def dropped(self, permits: int) -> int:
        """Count messages that have left the queue; return how many permits are still to return."""
        self.queued -= permits
        claimed = min(permits, self._claimed)
        self._claimed -= claimed
        return permits - claimed  # promise[without - claimed]: a permit is given back once

    def left_out(self, permits: int) -> None:
        """Return the permits of received messages that the application never takes."""
        if self._most:
            self._give_back(permits)
        else:
            # The application still waits, and what it asked for did not reach it.
            self._inbox.wake()

    def resume(self) -> None:
        """Continue after `is_paused` was set."""
        self.is_paused = False
        if self._most:
            self._give_back(0)  # which sends the permits that were owed during the pause
        else:
            self._inbox.wake()

    def end(self) -> None:
        """Stop requesting messages."""
        self._inbox.memory.forget(self._shrink)
        self._inbox.forget_demand(self._demand, self._grow)

    def _give_back(self, permits: int) -> None:
        self._owed += permits
        # One FLOW for half of the queue, so that the broker never waits and commands are few.
        if self._owed * 2 < self.size.now or self.is_paused:
            return
        connection = self._registration.connection
        # Without a connection nothing is lost: `begin` grants the free room.
        if connection is not None:
            connection.write_now(encode_flow(self._id, self._owed))
            self._owed = 0

    def _grow(self) -> None:
        """Let the broker send more at a time, because the application waits; if memory permits."""
        if not self._inbox.memory.is_high:
            self._give_back(self.size.grow())

    def _shrink(self) -> None:
        """Let the broker send less at a time, because memory is short."""
        # The change is negative: granted permits cannot be taken back, so the next ones are kept.
        self._owed += self.size.shrink()

    def _demand(self) -> None:
        """Request one entry when the queue size is 0, unless an entry is already requested."""
        connection = self._registration.connection
        if connection is not None and self._granted <= 0 and not self.is_paused:
            # A batch takes more permits than were granted: make up for the difference.
            connection.write(encode_flow(self._id, 1 - self._granted))
            self._granted = 1
