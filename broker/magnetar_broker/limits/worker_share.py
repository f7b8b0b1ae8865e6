"""The part of the broker's limits that each of its workers has."""

from dataclasses import replace
from typing import Literal

from magnetar_broker.config import Settings
from magnetar_storage.log.read_budget import DEFAULT_LIMIT


def settings_of_worker(settings: Settings, workers: int) -> Settings:
    """Return the settings of one worker: limits of all topics together are divided by `workers`.

    Together the workers stay within such a limit; what one of them does not use is of no use to
    the others.  Every worker has something of it, even if that is more than its part.
    """

    def part_or_auto(limit: int | Literal["auto"]) -> int | Literal["auto"]:
        return limit if limit == "auto" else part(limit)

    def part(limit: int) -> int:
        # promise[without > 0]: a publish buffer without limit stays without limit
        return (
            max(1, limit // workers) if limit > 0 else limit
        )  # what is not positive stands for something else

    reads = settings.managed_ledger_max_reads_in_flight_size_in_mb or DEFAULT_LIMIT >> 20
    return replace(
        settings,
        magnetar_workers=workers,
        managed_ledger_cache_size_mb=part(settings.managed_ledger_cache_size_mb),
        managed_ledger_max_reads_in_flight_size_in_mb=part(reads),
        max_message_publish_buffer_size_in_mb=part(settings.max_message_publish_buffer_size_in_mb),
        magnetar_receive_buffer_size_in_mb=part_or_auto(
            settings.magnetar_receive_buffer_size_in_mb
        ),
        magnetar_send_buffer_size_in_mb=part_or_auto(settings.magnetar_send_buffer_size_in_mb),
        max_unacked_messages_per_broker=part(settings.max_unacked_messages_per_broker),
        broker_publisher_throttling_max_message_rate=part(
            settings.broker_publisher_throttling_max_message_rate
        ),
        broker_publisher_throttling_max_byte_rate=part(
            settings.broker_publisher_throttling_max_byte_rate
        ),
        magnetar_max_metric_series=part(settings.magnetar_max_metric_series),
        magnetar_unread_messages_retention_total_size_in_mb=part(
            settings.magnetar_unread_messages_retention_total_size_in_mb
        ),
        dispatch_throttling_rate_in_msg=part(settings.dispatch_throttling_rate_in_msg),
        dispatch_throttling_rate_in_byte=part(settings.dispatch_throttling_rate_in_byte),
    )
