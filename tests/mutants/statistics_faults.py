"""Faults of statistics."""

from mutants.fault import Fault

RATES = ("tests/broker/topic/test_measuring.py",)
HASHES = ("tests/broker/statistics/test_key_hashes.py",)
MEASURING = "broker/magnetar_broker/topic/measuring.py"
SUBSCRIPTION = "broker/magnetar_broker/subscribing/subscription.py"

STATISTICS_FAULTS: tuple[Fault, ...] = (
    Fault(
        MEASURING,
        "every topic is measured in every window",
        "    if not topic.traffic.fresh:\n        return\n",
        "",
        RATES,
    ),
    Fault(
        MEASURING,
        "the last rates of a topic without traffic stay",
        "    topic.traffic.fresh = is_moving\n",
        "    topic.traffic.fresh = False\n",
        RATES,
    ),
    Fault(
        SUBSCRIPTION,
        "what a consumer did in its last window is lost with it",
        "        self._left = added(self._left, consumer.totals())\n",
        "",
        RATES,
    ),
    Fault(
        "broker/magnetar_broker/dispatch/unacked_messages.py",
        "messages that are returned count as acknowledged",
        "        consumer.messages_returned += messages\n",
        "",
        RATES,
    ),
    Fault(
        "broker/magnetar_broker/subscribing/acknowledging.py",
        "a cumulative acknowledgement counts what was acknowledged before",
        " - acked.count(first, offset + 1) if entries and acked else entries\n",
        "\n",
        RATES,
    ),
    Fault(
        "broker/magnetar_broker/server/admin/partition_sums.py",
        "times of partitions are added up",
        "    if name in LATEST:\n        return max\n",
        "",
        ("tests/broker/server/test_partition_sums.py",),
    ),
    Fault(
        "broker/magnetar_broker/statistics/key_hashes.py",
        "ranges of hashes end where the next one of the same consumer begins",
        "                ranges[-1][1] = last\n",
        "                ranges.append([first, last])\n",
        HASHES,
    ),
    Fault(
        "broker/magnetar_broker/dispatch/key_queues.py",
        "a draining hash lists messages that are acknowledged, or of other hashes",
        "        return [(offset, slots[offset]) for offset in pending]\n",
        "        return [(offset, slots[pending[0]]) for offset in pending]\n",
        ("tests/broker/official/test_official_statistics.py",),
    ),
    Fault(
        "storage/magnetar_storage/log/offset_set.py",
        "ranges over the border of two chunks are counted twice",
        " - (last == chunk - 1 and bits & 1)\n",
        "\n",
        ("tests/storage/log/test_offset_set.py",),
    ),
)
