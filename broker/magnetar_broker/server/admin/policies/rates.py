"""The dispatch rate of one subscription, which a topic says beside that of all of them."""

from collections.abc import Iterator

from magnetar_broker.broker import Broker
from magnetar_broker.policies import (
    SUBSCRIPTION_DISPATCH_RATE,
    SUBSCRIPTION_DISPATCH_RATES,
    DispatchRate,
)
from magnetar_broker.server.admin.policies.line import decoded, speaking_topic
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
FORM = SUBSCRIPTION_DISPATCH_RATE.form


async def on_get(site: Site, request: Request) -> Response:
    """What the topic says of the subscription, or what holds for it."""
    broker = serving(site)
    topic = await speaking_topic(broker, request)
    rate = (await _said(broker, topic)).get(_subscription(request))
    if rate is None and flag_of(request, "applied"):
        rate = (await broker.policies.holds(SUBSCRIPTION_DISPATCH_RATE, topic)).value
    return text_response("") if rate is None else json_response(FORM.encode(rate))


async def on_set(site: Site, request: Request) -> Response:
    """Say it; an empty body unsays it."""
    broker = serving(site)
    topic = await speaking_topic(broker, request)
    said = json_of(request) if request.body.strip() else None
    return await _say(
        broker, topic, _subscription(request), None if said is None else decoded(FORM, said)
    )


async def on_delete(site: Site, request: Request) -> Response:
    """Unsay it."""
    broker = serving(site)
    return await _say(broker, await speaking_topic(broker, request), _subscription(request), None)


async def _said(broker: Broker, topic: TopicName) -> dict[str, DispatchRate]:
    return await broker.policies.said(SUBSCRIPTION_DISPATCH_RATES, topic) or {}


async def _say(
    broker: Broker, topic: TopicName, subscription: str, rate: DispatchRate | None
) -> Response:
    def changed(rates: dict[str, DispatchRate] | None) -> dict[str, DispatchRate]:
        others = {name: one for name, one in (rates or {}).items() if name != subscription}
        return others if rate is None else {**others, subscription: rate}

    await broker.enforcement.change(topic, SUBSCRIPTION_DISPATCH_RATES, changed)
    return Response(status=204)


def _subscription(request: Request) -> str:
    (name,) = parts_of(request, "subscription")
    return name


def routes() -> Iterator[Route[Handler]]:
    """What is answered."""
    yield Route("GET", PATH, on_get)
    yield Route("POST", PATH, on_set)
    yield Route("DELETE", PATH, on_delete)
