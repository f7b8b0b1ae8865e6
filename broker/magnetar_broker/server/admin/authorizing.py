"""Authorizes all requests over HTTP, by the permission of their endpoint.

Commands of the binary protocol are authorized in `session/authorizing.py`.

A handler runs only for roles that have the permission.  Whether the objects of a request exist is
looked up afterwards, so refusals do not reveal it.
"""

from collections.abc import Iterable, Iterator

from magnetar_broker.authorization.rules import AccessRequest, RequiredPermission
from magnetar_broker.base.errors import NotAuthorized
from magnetar_broker.server.admin.context import (
    AdminContext,
    namespace_of,
    subscription_of,
    topic_of,
)
from magnetar_broker.server.http.messages import Refused, Request
from magnetar_proto.admin.endpoint import Endpoint, Permission
from magnetar_proto.names import TopicName

NEEDS = {
    Permission.PRODUCE: RequiredPermission.PRODUCE,
    Permission.CONSUME: RequiredPermission.CONSUME,
    Permission.PRODUCE_OR_CONSUME: RequiredPermission.PRODUCE_OR_CONSUME,
    Permission.TENANT_ADMIN: RequiredPermission.TENANT_ADMIN,
    Permission.SUPER_USER: RequiredPermission.SUPER_USER,
}
"""The permissions that depend on the role."""


async def authorize(context: AdminContext, endpoint: Endpoint, request: Request) -> None:
    """Check that the roles of a request have the endpoint's permission; raise `Refused` if not.

    The parameters of the path are in the request.
    """
    if context.directory.authorizer.rules is None or endpoint.permission is Permission.OPEN:
        return
    if request.roles is None:
        raise Refused(401, "no role has been authenticated: send credentials")
    if endpoint.permission is not Permission.AUTHENTICATED:
        # promise: each request is authorized
        await _authorize(
            context, request, list(_accesses(endpoint, request)), endpoint.refused_with
        )


async def authorize_topic(
    context: AdminContext, request: Request, need: RequiredPermission, topic: TopicName
) -> None:
    """Authorize a request as `authorize` does, for a topic that the handler has determined."""
    if context.directory.authorizer.rules is not None:
        await _authorize(context, request, [AccessRequest(need, str(topic))], 401)


async def authorize_subscriptions(
    context: AdminContext, request: Request, where: str, names: Iterable[str], refused: int
) -> None:
    """Authorize a request as `authorize` does, for subscriptions that the handler has determined.

    `where` is their topic or namespace.  The refusal names a subscription that the roles may not
    use.
    """
    if context.directory.authorizer.rules is not None:
        accesses = [
            AccessRequest(RequiredPermission.CONSUME, where, name) for name in sorted(set(names))
        ]
        # promise: requests for all subscriptions are authorized for each
        await _authorize(context, request, accesses, refused)


async def _authorize(
    context: AdminContext, request: Request, accesses: list[AccessRequest], refused: int
) -> None:
    roles = () if request.roles is None else request.roles.all
    try:
        await context.directory.authorize(roles, accesses)
    except NotAuthorized as error:
        raise Refused(refused, str(error)) from error


def _accesses(endpoint: Endpoint, request: Request) -> Iterator[AccessRequest]:
    need, parameters = NEEDS[endpoint.permission], request.parameters
    if need is RequiredPermission.SUPER_USER:
        yield AccessRequest(need)
        return
    subscription = ""
    # promise: the subscription in a path is authorized
    if need is RequiredPermission.CONSUME and "subscription" in parameters:
        subscription = subscription_of(request)
    if "tenant" in parameters:
        yield AccessRequest(need, _subject(request), subscription)
    elif not endpoint.names_topics:  # nothing can be permitted: only super-users may
        yield AccessRequest(RequiredPermission.SUPER_USER)
    if endpoint.names_topics:
        # Only here: the modules of handlers are imported with the first request.
        from magnetar_broker.server.admin.permissions import topics_named  # noqa: PLC0415

        # promise[topics_named(request) -> ()]: the topics in a body are authorized
        for name in topics_named(request):
            yield AccessRequest(need, name)


def _subject(request: Request) -> str:
    """Return the topic, the namespace or the tenant that the path names."""
    parameters = request.parameters
    if "topic" in parameters:
        return str(topic_of(request))
    if "namespace" in parameters:
        return namespace_of(request)
    tenant = request.part("tenant")
    return tenant
