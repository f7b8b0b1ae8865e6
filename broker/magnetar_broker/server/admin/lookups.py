"""Lookups over HTTP: the broker that serves a topic, and the topic's bundle."""

from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.context import AdminContext, http_url, serving, topic_of
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_proto.names import TopicName


async def lookup(context: AdminContext, request: Request) -> Response:
    """Return the broker that serves a topic; 404 if it does not exist and is not created by use."""
    directory, topic = serving(context), topic_of(request)
    with directory.lookup():
        await directory.namespaces.require(topic.namespace_name)
        await _require_topic(directory, topic)
        authoritative = request.query.get("authoritative") == "true"
        owner = await directory.ownership.locate(topic, authoritative)
        urls = owner.urls_of(_listener_of(request))
        here = http_url(request, owner.service_url) if owner.is_self else ""
    return json_response(
        {
            "brokerUrl": urls.pulsar,
            "brokerUrlTls": urls.pulsar_tls,
            "brokerUrlSsl": "",
            "httpUrl": urls.http or ("" if request.is_tls else here),
            "httpUrlTls": urls.http_tls or (here if request.is_tls else ""),
            "nativeUrl": urls.pulsar,
        }
    )


def _listener_of(request: Request) -> str:
    """Return the listener that the client names in the query or a header; "" for the default."""
    return request.query.get("listenerName") or request.headers.get("x-pulsar-listenername", "")


async def _require_topic(directory: Directory, topic: TopicName) -> None:
    await directory.policies.load(topic)
    if not topic.is_persistent or directory.creation.may_create(topic):
        return
    if not 0 <= topic.partition < await directory.catalogue.partitions(topic):
        await directory.partitions(topic, create=False)


async def bundle(context: AdminContext, request: Request) -> Response:
    """Return the bundle of a topic, whether or not the topic exists."""
    directory, topic = serving(context), topic_of(request)
    bundles = await directory.bundles.stored.of(topic.namespace_name)
    return text_response(bundles.of(topic))
