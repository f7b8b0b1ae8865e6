"""The state that the parts of the consumer of one partition share."""

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
    """One consumer of one partition: its ids, its options, and where messages come from and go."""

    id: int
    """The consumer id on the wire."""
    topic: str
    partition: int
    options: Subscription
    registration: Registration
    inbox: Inbox[T]
    source: Source
    """The source of its items in the inbox: the object that acknowledges them."""
    counts: ConsumerStatistics
    clock: Clock
