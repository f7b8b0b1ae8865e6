"""Faults of statistics."""

from mutants.fault import Fault

RATES = ("tests/broker/topic/test_measuring.py",)
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
        SUBSCRIPTION,
        "acknowledged entries are counted for messages",
        "        messages = unacked - self.dispatcher.unacked if counted else "
        "consumer.messages_of(entries)\n",
        "        messages = entries\n",
        RATES,
    ),
    Fault(
        "broker/magnetar_broker/subscribing/acknowledging.py",
        "a cumulative acknowledgement counts what was acknowledged before",
        " - acked.count(first, offset + 1) if entries and acked else entries\n",
        "\n",
        RATES,
    ),
)
