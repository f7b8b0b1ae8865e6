"""Limits that all topics of a broker share: budgets and rates, with their counters."""

from typing import NamedTuple

from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.unacked_budget import UnackedBudget
from magnetar_broker.limits.unread_total import UnreadTotal
from magnetar_broker.throttling.rate_limit import BrokerRates, Rate
from magnetar_storage.runtime.execution import Clock


class SharedLimits(NamedTuple):
    """The shared limits of a broker; `TopicLimits` has the limits of each topic."""

    rates: BrokerRates
    """The rates of publishing and of delivering of all topics together."""
    unacked: UnackedBudget
    """The unacknowledged messages of all subscriptions together."""
    unread: UnreadTotal
    """Messages of all topics together that no subscription has acknowledged."""
    clock_watch: ClockWatch
    """The time by which the ages of messages count."""


def shared_rates(settings: Settings) -> tuple[Rate, Rate]:
    """Return the rates of publishing and of delivering that the settings have."""
    publish = Rate(
        settings.broker_publisher_throttling_max_message_rate,
        settings.broker_publisher_throttling_max_byte_rate,
    )
    dispatch = Rate(
        settings.dispatch_throttling_rate_in_msg, settings.dispatch_throttling_rate_in_byte
    )
    return publish, dispatch


def unread_total_bytes(settings: Settings) -> int:
    """Return the limit of unread messages of all topics; -1 means no limit."""
    megabytes = settings.magnetar_unread_messages_retention_total_size_in_mb
    return -1 if megabytes < 0 else megabytes << 20


def shared_limits(settings: Settings, clock: Clock) -> SharedLimits:
    """Return the shared limits that the settings define."""
    unacked = UnackedBudget(
        settings.max_unacked_messages_per_broker,
        settings.max_unacked_messages_per_subscription_on_broker_blocked,
    )
    workers = settings.magnetar_workers
    unread = UnreadTotal(unread_total_bytes(settings), 1 if workers == "auto" else workers)
    return SharedLimits(BrokerRates(*shared_rates(settings)), unacked, unread, ClockWatch(clock))
