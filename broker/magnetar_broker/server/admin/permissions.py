"""What roles may do with topics: stored and shown.  Nothing is enforced yet."""

from collections.abc import Iterator, Sequence
from typing import Any

from magnetar_broker.names.permissions import ACTIONS, ordered
from magnetar_broker.server.admin.policies.line import without_effect
from magnetar_broker.server.admin.site import (
    NAMESPACE,
    TOPIC,
    Handler,
    Site,
    existing_namespace,
    existing_topic,
    json_of,
    parts_of,
    serving,
)
from magnetar_broker.server.http.contract import CONTROLLER, STRINGS, TENANT_ADMIN, Body
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_proto.names import TopicName

NOT_ENFORCED = "roles are not enforced yet: everyone who can connect may do everything"
GRANTED = Response(status=204, headers={"Warning": without_effect("the permission", NOT_ENFORCED)})
SOME = {"type": "array", "items": {"type": "string", "enum": list(ACTIONS)}}


def _of_topics_body(*required: str) -> Body:
    properties = {"topic": {"type": "string"}, "role": {"type": "string"}, "actions": SOME}
    one = {"type": "object", "properties": properties, "required": list(required)}
    return Body({"type": "array", "items": one}, "topics, each with a role and its actions")


LARGEST = 1000
"""Topics of one request."""


# Namespaces --------------------------------------------------------------------------------


async def of_namespace(site: Site, request: Request) -> Response:
    """The actions that each role may do with all topics of a namespace."""
    directory = serving(site)
    namespace = await existing_namespace(directory, request)
    return json_response(await directory.permissions.of_namespace(namespace))


async def grant(site: Site, request: Request) -> Response:
    """Let a role do the actions in the body, and no others, with all topics of a namespace."""
    directory = serving(site)
    namespace = await existing_namespace(directory, request)
    await directory.permissions.grant(namespace, _role(request), _actions(json_of(request)))
    return GRANTED


async def revoke(site: Site, request: Request) -> Response:
    """Take from a role what it may do with all topics of a namespace."""
    directory = serving(site)
    namespace = await existing_namespace(directory, request)
    await directory.permissions.revoke(namespace, _role(request))
    return Response(status=204)


# Subscriptions -----------------------------------------------------------------------------


async def of_subscriptions(site: Site, request: Request) -> Response:
    """The roles that may use the subscriptions of a namespace, where not everyone may."""
    directory = serving(site)
    namespace = await existing_namespace(directory, request)
    return json_response(await directory.permissions.of_subscriptions(namespace))


async def grant_subscription(site: Site, request: Request) -> Response:
    """Let the roles in the body, and no others, use a subscription."""
    directory = serving(site)
    namespace = await existing_namespace(directory, request)
    (subscription,), roles = parts_of(request, "subscription"), json_of(request)
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise Refused(400, "the body: expected a list of roles")
    await directory.permissions.grant_subscription(namespace, subscription, sorted(set(roles)))
    return GRANTED


async def revoke_subscription(site: Site, request: Request) -> Response:
    """Take a subscription from a role."""
    directory = serving(site)
    namespace = await existing_namespace(directory, request)
    (subscription,) = parts_of(request, "subscription")
    known = await directory.permissions.of_subscriptions(namespace)
    if subscription not in known:
        raise Refused(404, f"{subscription} has no permissions in {namespace}: check the name")
    await directory.permissions.revoke_subscription(namespace, subscription, _role(request))
    return Response(status=204)


# Topics ------------------------------------------------------------------------------------


async def of_topic(site: Site, request: Request) -> Response:
    """The actions that each role may do with a topic, also by its namespace."""
    directory = serving(site)
    topic = await existing_topic(directory, request)
    return json_response(await directory.permissions.of_topic(topic))


async def grant_on_topic(site: Site, request: Request) -> Response:
    """Let a role do the actions in the body, and no others, with a topic."""
    directory = serving(site)
    topic, actions = await existing_topic(directory, request), _actions(json_of(request))
    await directory.permissions.grant_on_topic(topic, _role(request), actions)
    return GRANTED


async def revoke_on_topic(site: Site, request: Request) -> Response:
    """Take from a role what it may do with a topic by itself."""
    directory = serving(site)
    topic = await existing_topic(directory, request)
    await directory.permissions.revoke_on_topic(topic, _role(request))
    return Response(status=204)


async def grant_on_topics(site: Site, request: Request) -> Response:
    """Let roles do actions with topics, one after the other in the order of the body."""
    directory = serving(site)
    for topic, role, actions in _of_topics(request):
        await directory.permissions.grant_on_topic(topic, role, actions)
    return GRANTED


async def revoke_on_topics(site: Site, request: Request) -> Response:
    """Take actions from roles on topics, all without `actions`, in the order of the body."""
    directory = serving(site)
    for topic, role, actions in _of_topics(request, otherwise=ACTIONS):
        await directory.permissions.revoke_on_topic(topic, role, actions)
    return Response(status=204)


def _of_topics(
    request: Request, otherwise: Sequence[str] | None = None
) -> list[tuple[TopicName, str, list[str]]]:
    """The whole body; 400 if anything in it is wrong, so that nothing is done.

    `otherwise` are the actions where an object names none.
    """
    body = json_of(request)
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
        found.append((TopicName.parse(topic), _checked(role), _actions(actions)))
    return found


def _role(request: Request) -> str:
    (role,) = parts_of(request, "role")
    return _checked(role)


def _checked(role: str) -> str:
    if not role.strip() or role != role.strip():
        raise Refused(412, f"role {role!r}: expected a name without blanks around it")
    return role


def _actions(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Refused(400, "actions: expected a list of actions, such as produce and consume")
    unknown = sorted(set(value) - set(ACTIONS))
    if unknown:
        raise Refused(
            400, f"actions: {', '.join(unknown)} is none of them: expected {', '.join(ACTIONS)}"
        )
    return ordered(value)


def routes() -> Iterator[Route[Handler]]:
    """The routes that this module answers."""
    body = Body(SOME, "all that the role may do")
    path, who, where = f"/admin/v2/namespaces/{NAMESPACE}/permissions", TENANT_ADMIN, CONTROLLER
    yield Route("GET", path, who, where, of_namespace)
    yield Route("POST", f"{path}/{{role}}", who, where, grant, body=body)
    yield Route("DELETE", f"{path}/{{role}}", who, where, revoke)
    yield Route("GET", f"{path}/subscription", who, where, of_subscriptions)
    yield Route(
        "POST",
        f"{path}/subscription/{{subscription}}",
        who,
        where,
        grant_subscription,
        body=Body(STRINGS, "roles"),
    )
    yield Route("DELETE", f"{path}/{{subscription}}/{{role}}", who, where, revoke_subscription)
    path = f"/admin/v2/{TOPIC}/permissions"
    yield Route("GET", path, who, where, of_topic)
    yield Route("POST", f"{path}/{{role}}", who, where, grant_on_topic, body=body)
    yield Route("DELETE", f"{path}/{{role}}", who, where, revoke_on_topic)
    path = "/admin/v2/namespaces"
    yield Route(
        "POST",
        f"{path}/grantPermissionsOnTopics",
        who,
        where,
        grant_on_topics,
        body=_of_topics_body("topic", "role", "actions"),
    )
    yield Route(
        "POST",
        f"{path}/revokePermissionsOnTopics",
        who,
        where,
        revoke_on_topics,
        body=_of_topics_body("topic", "role"),
    )
