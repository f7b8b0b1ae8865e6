"""Effective policies with their sources over HTTP, which Pulsar does not have."""

from collections.abc import Iterator

from magnetar_broker.policies.explain import explained
from magnetar_broker.server.admin.context import (
    NAMESPACE,
    TOPIC,
    AdminContext,
    Handler,
    existing_namespace,
    serving,
)
from magnetar_broker.server.admin.policies.policy_handlers import IS_GLOBAL, topic_with_policies
from magnetar_broker.server.http.contract import CONTROLLER, TENANT_ADMIN
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route


async def of_topic(context: AdminContext, request: Request) -> Response:
    """Answer all effective policies of a topic, each with its source."""
    directory = serving(context)
    return json_response(
        await explained(directory.policies, await topic_with_policies(directory, request))
    )


async def of_namespace(context: AdminContext, request: Request) -> Response:
    """Answer all effective policies of a namespace, each with its source."""
    directory = serving(context)
    namespace = await existing_namespace(directory, request)
    return json_response(await explained(directory.policies, namespace))


def routes() -> Iterator[Route[Handler]]:
    """Yield the paths and their handlers."""
    yield Route(
        "GET",
        f"/admin/v2/namespaces/{NAMESPACE}/policies/explain",
        TENANT_ADMIN,
        CONTROLLER,
        of_namespace,
    )
    yield Route(
        "GET",
        f"/admin/v2/{TOPIC}/policies/explain",
        TENANT_ADMIN,
        CONTROLLER,
        of_topic,
        query=(IS_GLOBAL,),
    )
