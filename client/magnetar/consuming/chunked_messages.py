"""The incomplete chunked messages of one partition."""

from typing import Any

from magnetar.base.unreadable import DISCARD
from magnetar.clock import Timer
from magnetar.consuming.ack_sender import AckSender
from magnetar.consuming.chunks import ChunkJoiner
from magnetar.consuming.subscriber import Subscriber
from magnetar.consuming.unreadable_entries import UnreadableEntries
from magnetar.messages import Entry


class ChunkedMessages:
    """Joins chunks, and gives up messages that stay incomplete for too long."""

    def __init__(
        self,
        subscriber: Subscriber[Any],
        joiner: ChunkJoiner,
        unreadable: UnreadableEntries,
        ack_sender: AckSender,
    ) -> None:
        self._displaced = DISCARD if subscriber.options.ack_oldest_chunked else None
        self._clock = subscriber.clock
        self._joiner = joiner
        self._unreadable = unreadable
        self._ack_sender = ack_sender
        self._timer: Timer | None = None

    def add(self, chunk: Entry) -> Entry | None:
        """Add a chunk; return the joined message, once it is complete."""
        outcome = self._joiner.add(chunk, self._clock.now_s())
        self._given_up(outcome.given_up)
        self._given_up(outcome.displaced, self._displaced)
        self._ack_sender.ack_entries(one.position for one in outcome.superfluous)
        if outcome.orphan:
            self._unreadable.report(chunk.unreadable(outcome.orphan), [chunk.position], 0)
        if self._timer is None and self._joiner:
            self._schedule()
        return outcome.entry

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        due_s = self._joiner.next_expiry_s()
        if due_s is not None:
            self._timer = self._clock.at(due_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._given_up(self._joiner.expired(self._clock.now_s()))
        self._schedule()

    def _given_up(self, given_up: list[tuple[list[Entry], str]], action: str | None = None) -> None:
        for chunks, why in given_up:
            if chunks:  # their permits were returned on arrival
                positions = [chunk.position for chunk in chunks]
                self._unreadable.report(chunks[0].unreadable(why), positions, 0, action)
