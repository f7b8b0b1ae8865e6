"""The state that the parts of a partition's consumer share."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from magnetar.base.statistics import ConsumerStatistics
from magnetar.clock import Clock
from magnetar.connections.registration import Registration
from magnetar.consuming.inbox import Inbox, Item, Source
from magnetar.consuming.options import Subscription

T = TypeVar("T", bound=Item)


@dataclass(frozen=True, slots=True)
class Subscriber(Generic[T]):
    """A partition's consumer as its parts see it: ids, options, connection and inbox."""

    id: int
    """The consumer id on the wire."""
    topic: str
    partition: int
    options: Subscription
    registration: Registration
    inbox: Inbox[T]
    source: Source
    """The object that acknowledges the consumer's items in the inbox."""
    counts: ConsumerStatistics
    clock: Clock
