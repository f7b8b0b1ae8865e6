"""Explains effective values with their sources, as JSON for people."""

from typing import Any

from magnetar_broker.config.settings import KEYS
from magnetar_broker.policies.policy import Origin, Policy, Resolved, Subject
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import TABLE


async def explained(policies: Policies, subject: Subject) -> dict[str, Any]:
    """Return `{policy: {value, origin, source}}` of all policies of a namespace or topic.

    A policy without effect also has `noEffect`, the reason.
    """
    answer = {}
    for name, policy in TABLE.items():
        on = policy.declared.namespace if isinstance(subject, str) else policy.declared.topic
        if on is not None:
            resolved = await policies.effective(policy, subject)
            value: Any = resolved.value
            answer[name] = {
                "value": None if value is None else policy.codec.encode(value),
                "origin": str(resolved.origin),
                "source": source_of(policy, resolved, subject),
            }
            if why := policy.no_effect_with(policies.settings):
                answer[name]["noEffect"] = why
    return answer


def source_of(policy: Policy[Any], resolved: Resolved[Any], subject: Subject) -> str:
    """Return the place of an effective value: a topic, a namespace, or the settings' keys."""
    if resolved.origin is Origin.TOPIC:
        return f"topic {subject if isinstance(subject, str) else subject.base}"
    if resolved.origin is Origin.NAMESPACE:
        return f"namespace {subject if isinstance(subject, str) else subject.namespace_name}"
    keys = ", ".join(KEYS[field].name for field in policy.declared.settings)
    return f"settings {keys}" if keys else "the broker"
