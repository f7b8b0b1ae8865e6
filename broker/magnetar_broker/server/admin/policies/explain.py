"""Where every policy comes from: an answer of our own, for people who wonder why."""

from collections.abc import Iterator

from magnetar_broker.policies.explain import explained
from magnetar_broker.server.admin.policies.line import speaking_topic
from magnetar_broker.server.admin.site import (
    NAMESPACE,
    TOPIC,
    Handler,
    Site,
    existing_namespace,
    serving,
)
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route


async def of_topic(site: Site, request: Request) -> Response:
    """What holds for a topic, policy by policy, and who says so."""
    broker = serving(site)
    return json_response(await explained(broker.policies, await speaking_topic(broker, request)))


async def of_namespace(site: Site, request: Request) -> Response:
    """What holds for topics of a namespace that say nothing themselves."""
    broker = serving(site)
    namespace = await existing_namespace(broker, request)
    return json_response(await explained(broker.policies, namespace))


def routes() -> Iterator[Route[Handler]]:
    """What is answered."""
    yield Route("GET", f"/admin/v2/namespaces/{NAMESPACE}/policies/explain", of_namespace)
    yield Route("GET", f"/admin/v2/{TOPIC}/policies/explain", of_topic)
