"""The dispatch rate of one subscription over HTTP, a policy of its topic."""

from collections.abc import Iterator

from magnetar_broker.broker import Broker
from magnetar_broker.policies.table import SUBSCRIPTION_DISPATCH_RATE, SUBSCRIPTION_DISPATCH_RATES
from magnetar_broker.policies.values import DispatchRate
from magnetar_broker.server.admin.policies.line import decoded, topic_with_policies
from magnetar_broker.server.admin.site import (
    TOPIC,
    Handler,
    Site,
    flag_of,
    json_of,
    parts_of,
    serving,
)
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_broker.server.http.table import Route
from magnetar_proto.names import TopicName

PATH = f"/admin/v2/{TOPIC}/{{subscription}}/dispatchRate"
CODEC = SUBSCRIPTION_DISPATCH_RATE.codec


async def on_get(site: Site, request: Request) -> Response:
    """Answer the explicit rate, or with `?applied=true` the effective one."""
    broker = serving(site)
    topic = await topic_with_policies(broker, request)
    rate = (await _explicit(broker, topic)).get(_subscription(request))
    if rate is None and flag_of(request, "applied"):
        rate = (await broker.policies.effective(SUBSCRIPTION_DISPATCH_RATE, topic)).value
    return text_response("") if rate is None else json_response(CODEC.encode(rate))


async def on_set(site: Site, request: Request) -> Response:
    """Set it; an empty body deletes it."""
    broker = serving(site)
    topic = await topic_with_policies(broker, request)
    value = json_of(request) if request.body.strip() else None
    return await _set(
        broker, topic, _subscription(request), None if value is None else decoded(CODEC, value)
    )


async def on_delete(site: Site, request: Request) -> Response:
    """Delete it."""
    broker = serving(site)
    return await _set(
        broker, await topic_with_policies(broker, request), _subscription(request), None
    )


async def _explicit(broker: Broker, topic: TopicName) -> dict[str, DispatchRate]:
    return await broker.policies.explicit(SUBSCRIPTION_DISPATCH_RATES, topic) or {}


async def _set(
    broker: Broker, topic: TopicName, subscription: str, rate: DispatchRate | None
) -> Response:
    def changed(rates: dict[str, DispatchRate] | None) -> dict[str, DispatchRate]:
        others = {name: one for name, one in (rates or {}).items() if name != subscription}
        return others if rate is None else {**others, subscription: rate}

    await broker.enforcement.update(topic, SUBSCRIPTION_DISPATCH_RATES, changed)
    return Response(status=204)


def _subscription(request: Request) -> str:
    (name,) = parts_of(request, "subscription")
    return name


def routes() -> Iterator[Route[Handler]]:
    """The path of the rate and its handlers."""
    yield Route("GET", PATH, on_get)
    yield Route("POST", PATH, on_set)
    yield Route("DELETE", PATH, on_delete)
