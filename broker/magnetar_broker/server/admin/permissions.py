"""Permissions: the actions of roles on topics."""

from collections.abc import Sequence
from typing import Any

from magnetar_broker.names.permissions import (
    OF_NAMESPACE,
    OF_SUBSCRIPTIONS,
    OF_TOPICS,
    Permissions,
    TopicGrant,
    check_size,
    ordered,
)
from magnetar_broker.server.admin.context import (
    AdminContext,
    existing_namespace,
    existing_topic,
    serving,
)
from magnetar_broker.server.admin.policies.policy_handlers import without_effect
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto.admin.bodies import ACTIONS
from magnetar_proto.names import TopicName

NOT_ENFORCED = "authorizationEnabled is false: everyone who can connect may do everything"
LARGEST = 1000
"""The most topics of one request."""
LONGEST_ROLE = 256
"""The most characters of the name of a role."""


# Namespaces --------------------------------------------------------------------------------


async def of_namespace(context: AdminContext, request: Request) -> Response:
    """Return the actions that each role may do with all topics of a namespace."""
    permissions, namespace = await _in_namespace(context, request)
    return json_response(await permissions.of_namespace(namespace))


async def grant(context: AdminContext, request: Request) -> Response:
    """Let a role do the actions in the body, and no others, with all topics of a namespace."""
    permissions, namespace = await _in_namespace(context, request)
    await permissions.grant(namespace, _role(request), _actions(request.json()))
    return _granted(context)


async def revoke(context: AdminContext, request: Request) -> None:
    """Revoke all permissions of a role on all topics of a namespace."""
    permissions, namespace = await _in_namespace(context, request)
    await permissions.revoke(namespace, _role(request))


# Subscriptions -----------------------------------------------------------------------------


async def of_subscriptions(context: AdminContext, request: Request) -> Response:
    """Return the roles that may use the subscriptions of a namespace, where not everyone may."""
    permissions, namespace = await _in_namespace(context, request)
    return json_response(await permissions.of_subscriptions(namespace))


async def grant_subscription(context: AdminContext, request: Request) -> Response:
    """Let the roles in the body, and no others, use a subscription."""
    permissions, namespace = await _in_namespace(context, request)
    subscription, roles = request.part("subscription"), request.json()
    await permissions.grant_subscription(namespace, subscription, _roles(roles, "the body"))
    return _granted(context)


async def revoke_subscription(context: AdminContext, request: Request) -> None:
    """Revoke a role's permission to use a subscription."""
    permissions, namespace = await _in_namespace(context, request)
    subscription = request.part("subscription")
    known = await permissions.of_subscriptions(namespace)
    if subscription not in known:
        raise Refused(404, f"{subscription} has no permissions in {namespace}: check the name")
    await permissions.revoke_subscription(namespace, subscription, _role(request))


# Topics ------------------------------------------------------------------------------------


async def of_topic(context: AdminContext, request: Request) -> Response:
    """Return the actions that each role may do with a topic, also by its namespace."""
    permissions, topic = await _on_topic(context, request)
    return json_response(await permissions.of_topic(topic))


async def grant_on_topic(context: AdminContext, request: Request) -> Response:
    """Let a role do the actions in the body, and no others, with a topic."""
    permissions, topic = await _on_topic(context, request)
    actions = _actions(request.json())
    await permissions.grant_on_topics([TopicGrant(topic, _role(request), actions)])
    return _granted(context)


async def revoke_on_topic(context: AdminContext, request: Request) -> None:
    """Revoke the permissions of a role on a topic itself."""
    permissions, topic = await _on_topic(context, request)
    await permissions.revoke_on_topics([TopicGrant(topic, _role(request), list(ACTIONS))])


async def grant_on_topics(context: AdminContext, request: Request) -> Response:
    """Let roles do actions with topics; changes of a namespace are made together or not at all."""
    await serving(context).permissions.grant_on_topics(_of_topics(request))
    return _granted(context)


async def revoke_on_topics(context: AdminContext, request: Request) -> None:
    """Take actions from roles on topics, all without `actions`; together for each namespace."""
    grants = _of_topics(request, otherwise=ACTIONS)
    await serving(context).permissions.revoke_on_topics(grants)


def _of_topics(request: Request, otherwise: Sequence[str] | None = None) -> list[TopicGrant]:
    """Return the grants of the body; 400 if one of them is wrong, so that nothing is changed.

    `otherwise` are the actions for objects that name none.
    """
    body = request.json()
    expected = "the body: expected a list of objects with topic, role and actions"
    if not isinstance(body, list) or not all(isinstance(one, dict) for one in body):
        raise Refused(400, expected)
    if len(body) > LARGEST:
        raise Refused(412, f"the body has {len(body)} topics: the limit is {LARGEST}")
    found = []
    for one in body:
        topic, role = one.get("topic"), one.get("role")
        if not isinstance(topic, str) or not isinstance(role, str):
            raise Refused(400, expected)
        actions = one.get("actions")
        if actions is None and otherwise is not None:
            actions = list(otherwise)
        found.append(TopicGrant(TopicName.parse(topic), _checked(role), _actions(actions)))
    return found


def _granted(context: AdminContext) -> Response:
    """Return the answer to a change that grants a permission."""
    if context.directory.settings.authorization_enabled:
        return Response(status=204)
    return Response(status=204, headers={"Warning": without_effect("the permission", NOT_ENFORCED)})


# All of a new namespace ---------------------------------------------------------------------


def permissions_in(value: object, namespace: str) -> dict[str, Any]:
    """Return the `auth_policies` of a new namespace, checked as single grants are.

    Unknown kinds are left out.
    """
    kinds = _object(value, "auth_policies")
    topics: dict[str, Any] = {}
    for name, roles in _object(kinds.get(OF_TOPICS), OF_TOPICS).items():
        topic = TopicName.parse(name)
        if topic.namespace_name != namespace:
            raise Refused(412, f"{OF_TOPICS}: {topic} is not a topic of {namespace}: leave it out")
        topics.setdefault(str(topic), {}).update(_grants(roles, name))
    subscriptions: dict[str, list[str]] = {}
    for name, roles in _object(kinds.get(OF_SUBSCRIPTIONS), OF_SUBSCRIPTIONS).items():
        subscriptions[name] = _roles(roles, f"{OF_SUBSCRIPTIONS}, {name}")
    parts = {
        OF_NAMESPACE: _grants(kinds.get(OF_NAMESPACE), OF_NAMESPACE),
        OF_TOPICS: {name: roles for name, roles in topics.items() if roles},
        OF_SUBSCRIPTIONS: subscriptions,
    }
    check_size(namespace, parts, {})
    return {kind: part for kind, part in parts.items() if part}


def _grants(value: object, where: str) -> dict[str, list[str]]:
    return {_checked(role): _actions(actions) for role, actions in _object(value, where).items()}


def _object(value: object, where: str) -> dict[str, Any]:
    """Return an object of the body; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refused(400, f"{where}: expected an object")
    return value


def _roles(value: object, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(role, str) for role in value):
        raise Refused(400, f"{where}: expected a list of roles")
    return sorted({_checked(role) for role in value})


def topics_named(request: Request) -> list[str]:
    """Return the topics in the body."""
    return [str(grant.topic) for grant in _of_topics(request, otherwise=ACTIONS)]


async def _in_namespace(context: AdminContext, request: Request) -> tuple[Permissions, str]:
    """Return the permissions, and the namespace of the path; 404 if it does not exist."""
    directory = serving(context)
    return directory.permissions, await existing_namespace(directory, request)


async def _on_topic(context: AdminContext, request: Request) -> tuple[Permissions, TopicName]:
    """Return the permissions, and the topic of the path; 404 if it does not exist."""
    directory = serving(context)
    return directory.permissions, await existing_topic(directory, request)


def _role(request: Request) -> str:
    role = request.part("role")
    return _checked(role)


def _checked(role: str) -> str:
    if not role.strip() or role != role.strip():
        raise Refused(412, f"role {role!r}: expected a name without blanks around it")
    if len(role) > LONGEST_ROLE:
        raise Refused(
            412, f"role {role[:32]}... has {len(role)} characters: the limit is {LONGEST_ROLE}"
        )
    return role


def _actions(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Refused(400, "actions: expected a list of actions, such as produce and consume")
    unknown = sorted(set(value) - set(ACTIONS))
    if unknown:
        raise Refused(
            400, f"actions: {', '.join(unknown)} is not known: expected {', '.join(ACTIONS)}"
        )
    return ordered(value)
