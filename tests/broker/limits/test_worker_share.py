"""The part of the broker's limits that each of its workers has."""

from typing import Any

import pytest

from magnetar_broker.config import Settings
from magnetar_broker.limits.worker_share import settings_of_worker
from magnetar_storage.log.read_budget import DEFAULT_LIMIT

DIVIDED = (
    "managed_ledger_cache_size_mb",
    "managed_ledger_max_reads_in_flight_size_in_mb",
    "max_message_publish_buffer_size_in_mb",
    "max_unacked_messages_per_broker",
    "broker_publisher_throttling_max_message_rate",
    "broker_publisher_throttling_max_byte_rate",
    "dispatch_throttling_rate_in_msg",
    "dispatch_throttling_rate_in_byte",
)


def part_of(name: str, limit: int) -> int:
    """What one of four workers has of a limit."""
    values: dict[str, Any] = {name: limit}
    found: int = getattr(settings_of_worker(Settings(**values), 4), name)
    return found


@pytest.mark.parametrize("name", DIVIDED)
def test_a_limit_of_all_topics_is_divided(name: str) -> None:
    assert part_of(name, 1000) == 250


@pytest.mark.parametrize("name", DIVIDED)
def test_every_worker_has_something_of_a_small_limit(name: str) -> None:
    assert part_of(name, 2) == 1


@pytest.mark.parametrize(
    "name", [name for name in DIVIDED if name != "managed_ledger_max_reads_in_flight_size_in_mb"]
)
@pytest.mark.parametrize("value", [0, -1])
def test_no_limit_stays_no_limit(name: str, value: int) -> None:
    assert part_of(name, value) == value


def test_the_default_limit_of_reads_is_divided() -> None:
    settings = settings_of_worker(Settings(), 4)
    assert settings.managed_ledger_max_reads_in_flight_size_in_mb << 20 == DEFAULT_LIMIT // 4


def test_limits_of_a_topic_and_of_a_connection_are_not_divided() -> None:
    settings, whole = settings_of_worker(Settings(), 4), Settings()
    assert settings.max_producers_per_topic == whole.max_producers_per_topic
    assert settings.broker_max_connections == whole.broker_max_connections
    assert settings.magnetar_write_behind_size_mb == whole.magnetar_write_behind_size_mb
