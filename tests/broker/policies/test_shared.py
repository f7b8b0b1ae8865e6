"""Policies of which other processes have views.

tests/broker/names/workers/test_distributed.py has more.
"""

import pytest

from fakes.links import Joined
from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.config import Settings
from magnetar_broker.ipc import link as links
from magnetar_broker.policies.effective import StoredPolicies
from magnetar_broker.policies.shared import Learning, SharedPolicies
from magnetar_broker.policies.view import PolicyView

NAMESPACE = "public/default"


def test_a_view_that_is_lost_while_policies_are_sent_does_not_keep_them_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()
    policies = SharedPolicies(GuardedMetadata(MemoryMetadata(clock), None), Settings())
    stuck, other = Joined(clock), Joined(clock)
    view = PolicyView(Settings())
    for joined in (stuck, other):
        Learning(view if joined is other else PolicyView(Settings())).serve(joined.right)
        joined.connect()
        policies.share(joined.left)
    stuck.left.pause()
    monkeypatch.setattr(links, "OUTPUT_BYTES", 200)
    stuck.left.notify("policies.learn", "x" * 150, None)
    policies.learn(NAMESPACE, StoredPolicies("key", {"max_producers": 5}, version=None))
    clock.pump()
    assert stuck.left.has_ended
    assert [subject for subject, _ in view.all()] == [NAMESPACE]
