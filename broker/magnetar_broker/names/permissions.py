"""The permissions of roles on the topics of a namespace, as stored with the namespace.

They are Pulsar's `auth_policies`: by kind, then by topic or subscription, then by role. Nothing
here decides about a request.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from magnetar_broker.base.errors import LimitReached
from magnetar_broker.names.namespaces import Namespaces
from magnetar_proto.admin.bodies import ACTIONS
from magnetar_proto.names import MAX_PARTITION, PARTITION_SUFFIX, TopicName

OF_NAMESPACE, OF_TOPICS = "namespace_auth", "destination_auth"
OF_SUBSCRIPTIONS = "subscription_auth_roles"
MOST = 10_000
"""The most grants of a namespace: of roles on it, on topics and on subscriptions."""
LARGEST = 1 << 20
"""The most characters of a namespace's stored grants."""
_INDEX = re.compile("0|[1-9][0-9]{0,9}")

Grants = dict[str, list[str]]
"""The actions of each role."""


class TopicGrant(NamedTuple):
    """The actions on a topic that a role is granted, or that are revoked."""

    topic: TopicName
    role: str
    actions: list[str]


def ordered(actions: Iterable[str]) -> list[str]:
    """Return actions without duplicates, in the order in which they are shown."""
    wanted = set(actions)
    return [action for action in ACTIONS if action in wanted]


class Permissions:
    """Reads and changes the permissions of namespaces; each change is durable on return."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    async def of_namespace(self, namespace: str) -> Grants:
        """Return the grants that hold for every topic of a namespace."""
        return dict((await self._all(namespace)).get(OF_NAMESPACE, {}))

    async def of_topic(self, topic: TopicName) -> Grants:
        """Return the grants on a topic: its own and those of its namespace.

        A partition has the grants of its partitioned topic, and its own.
        """
        stored = await self._all(topic.namespace_name)
        merged: Grants = dict(stored.get(OF_NAMESPACE, {}))
        for name in dict.fromkeys((str(topic.base), str(topic))):
            for role, actions in stored.get(OF_TOPICS, {}).get(name, {}).items():
                merged[role] = ordered([*merged.get(role, ()), *actions])
        return merged

    async def of_subscriptions(self, namespace: str) -> dict[str, list[str]]:
        """Return the roles that may use each subscription that not everyone may use."""
        return dict((await self._all(namespace)).get(OF_SUBSCRIPTIONS, {}))

    async def grant(self, namespace: str, role: str, actions: list[str]) -> None:
        """Set the actions that a role may do on all topics of a namespace."""
        await self._change(namespace, OF_NAMESPACE, lambda kind: {**kind, role: actions})

    async def revoke(self, namespace: str, role: str) -> None:
        """Revoke what a role may do on all topics of a namespace; no effect if it has no grant."""
        await self._change(namespace, OF_NAMESPACE, lambda kind: _without(kind, role))

    async def grant_on_topics(self, grants: Iterable[TopicGrant]) -> None:
        """Set the actions that roles may do on topics.

        Each namespace is changed as a whole or not at all.  Nothing is changed if one of the
        namespaces does not exist.
        """

        def granted(topics: dict[str, Grants], parts: list[TopicGrant]) -> None:
            for topic, role, actions in parts:
                topics.setdefault(str(topic), {})[role] = actions

        await self._change_topics(grants, granted)

    async def revoke_on_topics(self, grants: Iterable[TopicGrant]) -> None:
        """Revoke actions of roles on topics, in changes as by `grant_on_topics`."""

        def revoked(topics: dict[str, Grants], parts: list[TopicGrant]) -> None:
            for topic, role, actions in parts:
                roles = topics.get(str(topic), {})
                left = [action for action in roles.pop(role, ()) if action not in actions]
                if left:
                    roles[role] = left

        await self._change_topics(grants, revoked)

    async def delete_topic(self, deleted: TopicName) -> None:
        """Revoke all permissions of all roles on a topic and its partitions."""

        def kept(topics: dict[str, Any]) -> dict[str, Any]:
            return {name: roles for name, roles in topics.items() if not _is_of(deleted, name)}

        topics = (await self._all(deleted.namespace_name)).get(OF_TOPICS, {})
        if len(kept(topics)) < len(topics):
            await self._change(deleted.namespace_name, OF_TOPICS, kept)

    async def grant_subscription(self, namespace: str, subscription: str, roles: list[str]) -> None:
        """Permit only these roles to use a subscription; an empty list permits everyone."""
        await self._change(namespace, OF_SUBSCRIPTIONS, lambda kind: {**kind, subscription: roles})

    async def revoke_subscription(self, namespace: str, subscription: str, role: str) -> None:
        """Revoke the use of a subscription from a role; no effect if it may not use it."""

        def revoked(subscriptions: dict[str, Any]) -> dict[str, Any]:
            if subscription not in subscriptions:
                return subscriptions
            left = [one for one in subscriptions[subscription] if one != role]
            others = {name: one for name, one in subscriptions.items() if name != subscription}
            return {**others, subscription: left} if left else others

        await self._change(namespace, OF_SUBSCRIPTIONS, revoked)

    async def _all(self, namespace: str) -> dict[str, Any]:
        return (await self._namespaces.get(namespace)).permissions

    async def _change_topics(
        self,
        grants: Iterable[TopicGrant],
        change: Callable[[dict[str, Grants], list[TopicGrant]], None],
    ) -> None:
        by_namespace: dict[str, list[TopicGrant]] = {}
        for grant in grants:
            by_namespace.setdefault(grant.topic.namespace_name, []).append(grant)
        for namespace in by_namespace:
            await self._namespaces.get(namespace)
        for namespace, parts in by_namespace.items():

            def changed(
                topics: dict[str, Grants], parts: list[TopicGrant] = parts
            ) -> dict[str, Grants]:
                copied = {name: dict(roles) for name, roles in topics.items()}
                change(copied, parts)
                return {name: roles for name, roles in copied.items() if roles}

            await self._change(namespace, OF_TOPICS, changed)

    async def _change(
        self, namespace: str, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        def changing(stored: dict[str, Any]) -> dict[str, Any]:
            changed = {**stored, kind: change(stored.get(kind, {}))}
            check_size(namespace, changed, stored)
            return {name: part for name, part in changed.items() if part}

        await self._namespaces.change_permissions(namespace, changing)


def check_size(namespace: str, changed: dict[str, Any], stored: dict[str, Any]) -> None:
    """Raise `LimitReached` if permissions are too many; they may shrink from what is stored."""
    if _size(changed) > max(_size(stored), MOST):
        raise LimitReached(f"namespace {namespace} has {MOST} grants, the limit: revoke some first")
    size = len(json.dumps(changed))
    if size > LARGEST and size > len(json.dumps(stored)):
        raise LimitReached(
            f"the permissions of namespace {namespace} would have {size} characters, and "
            f"the limit is {LARGEST}: revoke some first"
        )


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def _is_of(topic: TopicName, name: str) -> bool:
    """Return whether a name is that of the topic or of one of its partitions."""
    # Compare text: the stored names may be older than the check of names.
    text = str(topic)
    if name == text:
        return True
    before, _, index = name.rpartition(PARTITION_SUFFIX)
    # promise[before == text -> False]: the permissions of partitions go with their topic
    return before == text and bool(_INDEX.fullmatch(index)) and int(index) <= MAX_PARTITION


def _size(stored: dict[str, Any]) -> int:
    kinds = {kind: stored.get(kind, {}) for kind in (OF_NAMESPACE, OF_TOPICS, OF_SUBSCRIPTIONS)}
    inner = (*kinds[OF_TOPICS].values(), *kinds[OF_SUBSCRIPTIONS].values())
    return len(kinds[OF_NAMESPACE]) + sum(map(len, inner))
