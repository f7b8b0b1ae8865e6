"""The dispatch rate of one subscription over HTTP, a policy of its topic."""

from magnetar_broker.names.directory import Directory
from magnetar_broker.policies.table import SUBSCRIPTION_DISPATCH_RATE, SUBSCRIPTION_DISPATCH_RATES
from magnetar_broker.policies.values import DispatchRate
from magnetar_broker.server.admin.context import AdminContext, serving, subscription_of
from magnetar_broker.server.admin.policies.policy_handlers import (
    decoded,
    topic_with_policies,
)
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_proto.names import TopicName

CODEC = SUBSCRIPTION_DISPATCH_RATE.codec


async def on_get(context: AdminContext, request: Request) -> Response:
    """Answer a subscription's explicit dispatch rate, or with `?applied=true` the effective one."""
    directory = serving(context)
    topic = await topic_with_policies(directory, request)
    rate = (await _explicit(directory, topic)).get(subscription_of(request))
    if rate is None and request.flag("applied"):
        rate = (await directory.policies.effective(SUBSCRIPTION_DISPATCH_RATE, topic)).value
    return text_response("") if rate is None else json_response(CODEC.encode(rate))


async def on_set(context: AdminContext, request: Request) -> None:
    """Set the dispatch rate of a subscription; an empty body deletes it."""
    directory = serving(context)
    topic = await topic_with_policies(directory, request)
    value = request.json_or_none()
    await _set(
        directory, topic, subscription_of(request), None if value is None else decoded(CODEC, value)
    )


async def on_delete(context: AdminContext, request: Request) -> None:
    """Delete the dispatch rate of a subscription."""
    directory = serving(context)
    await _set(
        directory, await topic_with_policies(directory, request), subscription_of(request), None
    )


async def _explicit(directory: Directory, topic: TopicName) -> dict[str, DispatchRate]:
    return await directory.policies.explicit(SUBSCRIPTION_DISPATCH_RATES, topic) or {}


async def _set(
    directory: Directory, topic: TopicName, subscription: str, rate: DispatchRate | None
) -> None:
    def changed(rates: dict[str, DispatchRate] | None) -> dict[str, DispatchRate]:
        others = {name: one for name, one in (rates or {}).items() if name != subscription}
        return others if rate is None else {**others, subscription: rate}

    await directory.enforcement.update(topic, SUBSCRIPTION_DISPATCH_RATES, changed)
