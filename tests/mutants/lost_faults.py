"""Faults of requests whose connection ends while they wait."""

from mutants.fault import Fault

BROKER = "broker/magnetar_broker/"
TESTS = ("tests/broker/session/test_lost_connections.py",)
CHECKS = {
    "a subscription is created": (
        "subscribing/subscriptions.py",
        "        if cursor is None:\n            check()\n",
        "        if cursor is None:\n",
    ),
    "a schema is stored for a consumer": (
        "session/consumers.py",
        "command.force_topic_creation, check)\n    check()\n",
        "command.force_topic_creation, check)\n",
    ),
    "a schema is stored for a producer": (
        "session/producers.py",
        "    check()\n    # After all refusals",
        "    # After all refusals",
    ),
    "a schema is stored": ("session/schemas.py", "        session.check_open()\n", ""),
    "the topic is taken for a producer": (
        "publishing/producers.py", "            check()\n", "",
    ),
    "a subscription is moved": (
        "subscribing/subscription.py",
        "        target = await target_since(self.topic.log, timestamp_ms, compacted)\n"
        "        check()\n",
        "        target = await target_since(self.topic.log, timestamp_ms, compacted)\n",
    ),
    "a transaction begins": ("session/transactions.py", "        session.check_open()\n", ""),
}  # fmt: skip
"""By what happens all the same: the file, and the check that would prevent it."""

LOST_FAULTS: tuple[Fault, ...] = tuple(
    Fault(BROKER + file, f"{what} for a client that has left", old, new, TESTS)
    for what, (file, old, new) in CHECKS.items()
)
