"""Waking a topic's subscriptions: once a turn of the loop, for all runs that became durable in it.

Apart from `Topic` so that it can be compiled: it runs for every run that is published.
"""

from collections.abc import Sequence

from magnetar_broker.dispatch.frames import FrameCache
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_storage.runtime.execution import Clock


class Delivery:
    """Makes a topic's subscriptions dispatch new entries."""

    __slots__ = ("_clock", "_frames", "_scheduled", "_subscriptions")

    def __init__(
        self, subscriptions: dict[str, Subscription], frames: FrameCache, clock: Clock
    ) -> None:
        """`subscriptions` is changed by its owner when subscriptions are created or deleted."""
        self._subscriptions = subscriptions
        self._frames = frames
        self._clock = clock
        self._scheduled = False

    def wake(self) -> None:
        """Make each subscription dispatch new entries at the end of this turn."""
        if not self._scheduled and self._subscriptions:
            self._scheduled = True
            self._clock.soon(self._dispatch, "dispatch")

    def _dispatch(self) -> None:
        self._scheduled = False
        subscriptions = list(self._subscriptions.values())
        # Encoded frames are worth keeping only if another subscription sends the same entries.
        self._frames.shared = len(subscriptions) > 1
        for subscription in subscriptions:
            subscription.dispatcher.dispatch()
        self._frames.forget()

    def due(self, offsets: Sequence[int]) -> None:
        """Deliver delayed entries that have become due."""
        for subscription in list(self._subscriptions.values()):
            subscription.dispatcher.due(offsets)
