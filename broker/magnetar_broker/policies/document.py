"""All policies of a namespace as one JSON object, as clients read and write them."""

from collections.abc import Iterator, Mapping
from typing import Any

from magnetar_broker.policies import table
from magnetar_broker.policies.policy import Policy, PolicyValues
from magnetar_broker.policies.stored import Policies
from magnetar_proto.admin.policy import Member

QUOTAS = "backlog_quota_map"
QUOTA_TYPES: dict[str, Policy[Any]] = {
    "destination_storage": table.BACKLOG_QUOTA_SIZE,
    "message_age": table.BACKLOG_QUOTA_AGE,
}
MEMBERS: dict[Policy[Any], Member] = {
    policy: policy.declared.member
    for policy in table.TABLE.values()
    if policy.declared.member is not None
}


async def policies_json(policies: Policies, namespace: str, cluster: str) -> dict[str, Any]:
    """Return the explicit values of a namespace; members that are not policies are left out."""
    document: dict[str, Any] = {QUOTAS: {}}
    for policy, member in MEMBERS.items():
        value = await policies.explicit(policy, namespace)
        written = member.when_unset if value is None else policy.codec.encode(value)
        if member.by_cluster:
            document[member.name] = {} if written is None else {cluster: written}
        elif written is not None:
            document[member.name] = written
    for kind, policy in QUOTA_TYPES.items():
        value = await policies.explicit(policy, namespace)
        if value is not None:
            document[QUOTAS][kind] = quota_json(policy, value)
    return document


def quota_json(policy: Policy[Any], value: Any) -> dict[str, Any]:
    """Return a backlog quota, with the size also under its former name for older clients."""
    written = policy.codec.encode(value)
    return {"limit": written["limitSize"], **written}


def values_in_policies_json(document: Mapping[str, Any], cluster: str) -> PolicyValues:
    """Return the policies in such an object, for a new namespace; unknown members are ignored.

    ValueError (`OutOfRange`) names the member with the invalid value.
    """
    values: dict[Policy[Any], Any] = {}
    for member, policy, value in _members(document, cluster):
        try:
            values[policy] = policy.codec.decode(value)
        except ValueError as error:
            raise type(error)(f"{member}: {error}") from error
    return values


def _members(document: Mapping[str, Any], cluster: str) -> Iterator[tuple[str, Policy[Any], Any]]:
    """Yield the explicit values of a document, with the names of their members."""
    for policy, member in MEMBERS.items():
        if member.by_cluster:
            name, value = f"{member.name}.{cluster}", _object(document, member.name).get(cluster)
        else:
            name, value = member.name, document.get(member.name)
        # Clients send unset members back that GET has written; the Go client writes "".
        # promise[without "",]: an empty text of a namespace's policies does not count
        if value not in (None, "", member.when_unset):
            yield name, policy, value
    for kind, policy in QUOTA_TYPES.items():
        value = _object(document, QUOTAS).get(kind)
        if value is not None:
            yield f"{QUOTAS}.{kind}", policy, value


def _object(document: Mapping[str, Any], member: str) -> dict[str, Any]:
    value = document.get(member)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{member}: expected an object")
    return value
