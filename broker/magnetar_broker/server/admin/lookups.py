"""Which broker, and which bundle, a topic is in."""

from collections.abc import Iterator

from magnetar_broker.broker import Broker
from magnetar_broker.server.admin.site import TOPIC, Handler, Site, http_url, serving, topic_of
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_broker.server.http.table import Route
from magnetar_proto.names import TopicName


async def lookup(site: Site, request: Request) -> Response:
    """Which broker serves a topic; 404 if it is missing and would not be created."""
    broker, topic = serving(site), topic_of(request)
    with broker.lookup():
        await broker.namespaces.require(topic.namespace_name)
        await _require_topic(broker, topic)
        authoritative = request.query.get("authoritative") == "true"
        owner = await broker.ownership.locate(topic, authoritative)
    return json_response(
        {
            "brokerUrl": owner.service_url,
            "brokerUrlTls": "",
            "brokerUrlSsl": "",
            "httpUrl": http_url(request, owner.service_url) if owner.is_self else "",
            "httpUrlTls": "",
            "nativeUrl": owner.service_url,
        }
    )


async def _require_topic(broker: Broker, topic: TopicName) -> None:
    await broker.policies.load(topic)
    if not topic.is_persistent or broker.creation.may_create(topic):
        return
    if not 0 <= topic.partition < await broker.catalogue.partitions(topic):
        await broker.partitions(topic, create=False)


async def bundle(site: Site, request: Request) -> Response:
    """The bundle of a topic, whether or not there is such a topic."""
    broker, topic = serving(site), topic_of(request)
    bundles = (await broker.namespaces.get(topic.namespace_name)).bundles
    assert bundles is not None  # of what is stored they are known
    return text_response(bundles.of(topic))


def routes() -> Iterator[Route[Handler]]:
    """What is answered here."""
    yield Route("GET", f"/lookup/v2/topic/{TOPIC}", lookup)
    yield Route("GET", f"/lookup/v2/topic/{TOPIC}/bundle", bundle)
