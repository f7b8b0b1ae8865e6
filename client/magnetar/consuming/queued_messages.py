"""The messages of one partition that the application has not taken yet."""

from typing import Any, Generic, TypeVar

from magnetar.consuming.ack_tracker import AckTracker
from magnetar.consuming.chunks import ChunkJoiner
from magnetar.consuming.permits import Permits
from magnetar.consuming.subscriber import Subscriber
from magnetar.messages import Entry, Message

T = TypeVar("T", bound=Message[Any] | Entry)


class QueuedMessages(Generic[T]):
    """Drops messages from the queue that the broker redelivers."""

    def __init__(
        self,
        subscriber: Subscriber[T],
        permits: Permits,
        tracker: AckTracker,
        joiner: ChunkJoiner | None,
    ) -> None:
        self.permits = permits
        self._inbox = subscriber.inbox
        self._source = subscriber.source
        self._tracker = tracker
        self._joiner = joiner

    def drop(self) -> int:
        """Drop the messages that the application has not taken: they are redelivered.

        Returns the number of their permits that have not been given back.
        """
        dropped = self._inbox.drop(self._source)
        self._tracker.begin_again()
        if self._joiner is not None:
            self._joiner.clear()
        return self.permits.dropped(dropped)

    def supersede(self, item: T, position: tuple[int, int]) -> None:
        """Drop queued messages of a batch that has arrived again and contains them."""
        if item.batch_index >= 0:
            dropped = self._inbox.drop(self._source, position)
            self.permits.left_out(self.permits.dropped(dropped))
