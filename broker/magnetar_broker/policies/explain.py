"""What holds, and where it comes from, in words."""

from typing import Any

from magnetar_broker.config.settings import KEYS
from magnetar_broker.policies.policy import Origin, Policy, Resolved, Subject
from magnetar_broker.policies.resolver import Policies
from magnetar_broker.policies.table import TABLE


async def explained(policies: Policies, subject: Subject) -> dict[str, Any]:
    """`{policy: {value, origin, saidBy}}` of all that a namespace or topic can say."""
    answer = {}
    for name, policy in TABLE.items():
        if policy.of_namespace if isinstance(subject, str) else policy.of_topic:
            resolved = await policies.holds(policy, subject)
            answer[name] = {
                "value": policy.form.encode(resolved.value),
                "origin": str(resolved.origin),
                "saidBy": said_by(policy, resolved, subject),
            }
    return answer


def said_by(policy: Policy[Any], resolved: Resolved[Any], subject: Subject) -> str:
    """Who says so: a topic, a namespace, or settings of the broker by their keys."""
    if resolved.origin is Origin.TOPIC:
        return f"topic {subject if isinstance(subject, str) else subject.base}"
    if resolved.origin is Origin.NAMESPACE:
        return f"namespace {subject if isinstance(subject, str) else subject.namespace_name}"
    keys = ", ".join(KEYS[field].name for field in policy.settings)
    return f"settings {keys}" if keys else "the broker"
