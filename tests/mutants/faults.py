"""Faults of delivery, each a text in one file, and the tests that must notice it.

Most are what makes a subscription fall silent, deliver twice or out of order; that the
model-based test finds them shows what it is worth.
"""

from dataclasses import dataclass

MODEL = ("tests/broker/test_dispatch_model.py",)
SHARED = "broker/magnetar_broker/dispatch/shared.py"
SUBSCRIPTION = "broker/magnetar_broker/subscription.py"


@dataclass(frozen=True)
class Fault:
    """A text that is right, and a wrong one; `file` and `tests` are paths in the repository."""

    file: str
    what: str
    old: str
    new: str
    tests: tuple[str, ...] = MODEL


FAULTS: tuple[Fault, ...] = (
    Fault(
        SUBSCRIPTION,
        "a wake-up is lost: permits arrive and nobody looks",
        "        consumer.permits += permits\n        self.dispatcher.dispatch()\n",
        "        consumer.permits += permits\n",
    ),
    Fault(
        "broker/magnetar_broker/consumer.py",
        "permits leak: an entry costs one more than its messages",
        "self.permits -= messages",
        "self.permits -= messages + 1",
    ),
)
