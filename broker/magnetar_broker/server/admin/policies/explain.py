"""Effective policies with their sources over HTTP, which Pulsar does not have."""

from magnetar_broker.policies.explain import explained
from magnetar_broker.server.admin.context import AdminContext, namespace_in, serving
from magnetar_broker.server.admin.policies.policy_handlers import topic_with_policies
from magnetar_broker.server.http.messages import Request, Response, json_response


async def of_topic(context: AdminContext, request: Request) -> Response:
    """Answer all effective policies of a topic, each with its source."""
    directory = serving(context)
    return json_response(
        await explained(directory.policies, await topic_with_policies(directory, request))
    )


async def of_namespace(context: AdminContext, request: Request) -> Response:
    """Answer all effective policies of a namespace, each with its source."""
    directory, namespace = await namespace_in(context, request)
    return json_response(await explained(directory.policies, namespace))
