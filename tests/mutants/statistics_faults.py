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
        "storage/magnetar_storage/log/log_state.py",
        "a cumulative acknowledgement of the entry before a ledger is ignored",
        "return base - 1 if entry == -1 and base is not None else self.offset_of(ledger, entry)",
        "return self.offset_of(ledger, entry)",
        ("tests/broker/subscribing/test_acknowledging.py",),
    ),
    Fault(
        "broker/magnetar_broker/subscribing/acknowledging.py",
        "an ack set of the entry before a ledger is applied to the last entry before it",
        "if not ack_set or entry < 0:",
        "if not ack_set:",
        ("tests/broker/subscribing/test_acknowledging.py",),
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
        "statistics list a thousand draining hashes of each of very many consumers",
        "most = min(MAX_HASHES, max(1, MAX_LISTED // max(len(held), 1)))",
        "most = MAX_HASHES",
        HASHES,
    ),
    Fault(
        "broker/magnetar_broker/statistics/key_hashes.py",
        "ranges of hashes end where the next one of the same consumer begins",
        "                ranges[-1][1] = last\n",
        "                ranges.append([first, last])\n",
        HASHES,
    ),
    Fault(
        "broker/magnetar_broker/statistics/key_hashes.py",
        "a draining hash lists messages of other hashes",
        "heap = None if slot is None else oldest.get(slot)",
        "heap = next(iter(oldest.values()), None)",
        HASHES,
    ),
    Fault(
        "broker/magnetar_broker/statistics/key_hashes.py",
        "a draining hash lists any of its messages instead of the oldest",
        "                    heapreplace(heap, -offset)\n",
        "                    pass\n",
        HASHES,
    ),
    Fault(
        "broker/magnetar_broker/statistics/brief.py",
        "a topic whose backlog cannot be counted fails the list of all topics",
        "    except StorageError as error:\n",
        "    except ZeroDivisionError as error:\n",
        ("tests/broker/statistics/test_brief.py",),
    ),
    Fault(
        "broker/magnetar_broker/statistics/brief.py",
        "topics with many subscriptions are counted without a pause",
        "        used += 1 + len(topic.subscriptions)\n",
        "        used += 0\n",
        ("tests/broker/statistics/test_brief.py",),
    ),
    Fault(
        "storage/magnetar_storage/log/offset_set.py",
        "ranges over the border of two chunks are counted twice",
        " - (last == chunk - 1 and bits & 1)\n",
        "\n",
        ("tests/storage/log/test_offset_set.py",),
    ),
)
