"""Policies over HTTP: GET what a namespace or topic says, POST to say it, DELETE to unsay it.

Nothing said is an empty answer; `?applied=true` on a topic asks what holds instead, whoever says
it.  A 204 means that the policy is on disk and that the topics keep to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from magnetar_broker.broker import Broker
from magnetar_broker.policies import (
    DEDUPLICATION,
    DELAYED_DELIVERY,
    ENCRYPTION_REQUIRED,
    DelayedDelivery,
    Policy,
)
from magnetar_broker.server.admin.site import (
    NAMESPACE,
    TOPIC,
    Handler,
    Site,
    json_of,
    namespace_of,
    serving,
    topic_of,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_broker.server.http.table import Route
from magnetar_proto.names import TopicName

T = TypeVar("T")


@dataclass(frozen=True)
class NamespacePolicy(Generic[T]):
    """The handlers of one policy of namespaces."""

    segment: str
    policy: Policy[T]
    unsaid: T | None = None
    """A value that is the same as saying nothing, and that GET answers then."""
    may_be_empty: bool = False
    """Whether an empty body unsays it, too."""

    async def get(self, site: Site, request: Request) -> Response:
        """What the namespace says."""
        broker = serving(site)
        namespace = await _existing_namespace(broker, request)
        said = await broker.policies.said(self.policy, namespace)
        return _answer(self.policy, self.unsaid if said is None else said)

    async def post(self, site: Site, request: Request) -> Response:
        """Say it."""
        broker = serving(site)
        namespace = await _existing_namespace(broker, request)
        value = _value(self.policy, request)
        if value is None and not self.may_be_empty:
            raise Refused(400, "the body is empty: expected true or false")
        said = None if value == self.unsaid else value
        await broker.set_namespace_policy(self.policy, namespace, said)
        return Response(status=204)

    async def delete(self, site: Site, request: Request) -> Response:
        """Unsay it."""
        broker = serving(site)
        namespace = await _existing_namespace(broker, request)
        await broker.set_namespace_policy(self.policy, namespace, None)
        return Response(status=204)

    def routes(self) -> Iterator[Route[Handler]]:
        """What is answered on the path; what cannot be unsaid has no DELETE."""
        path = f"/admin/v2/namespaces/{NAMESPACE}/{self.segment}"
        yield Route("GET", path, self.get)
        yield Route("POST", path, self.post)
        if self.unsaid is None:
            yield Route("DELETE", path, self.delete)


@dataclass(frozen=True)
class TopicPolicy(Generic[T]):
    """The handlers of one policy of topics."""

    segment: str
    policy: Policy[T]

    async def get(self, site: Site, request: Request) -> Response:
        """What the topic says, or what holds for it."""
        broker = serving(site)
        topic = await _existing_topic(broker, request)
        if request.query.get("applied") == "true":
            await broker.policies.load(topic)
            return _answer(self.policy, broker.policies.resolve(self.policy, topic).value)
        said = await broker.policies.said(self.policy, topic)
        return _answer(self.policy, said)

    async def post(self, site: Site, request: Request) -> Response:
        """Say it; an empty body unsays it."""
        broker = serving(site)
        topic = await _existing_topic(broker, request)
        await broker.set_topic_policy(self.policy, topic, _value(self.policy, request))
        return Response(status=204)

    async def delete(self, site: Site, request: Request) -> Response:
        """Unsay it."""
        broker = serving(site)
        topic = await _existing_topic(broker, request)
        await broker.set_topic_policy(self.policy, topic, None)
        return Response(status=204)

    def routes(self) -> Iterator[Route[Handler]]:
        """What is answered on the path."""
        path = f"/admin/v2/{TOPIC}/{self.segment}"
        yield Route("GET", path, self.get)
        yield Route("POST", path, self.post)
        yield Route("DELETE", path, self.delete)


NAMESPACE_POLICIES: tuple[NamespacePolicy[bool] | NamespacePolicy[DelayedDelivery], ...] = (
    NamespacePolicy("deduplication", DEDUPLICATION),
    NamespacePolicy("delayedDelivery", DELAYED_DELIVERY, may_be_empty=True),
    NamespacePolicy("encryptionRequired", ENCRYPTION_REQUIRED, unsaid=False),
)
TOPIC_POLICIES: tuple[TopicPolicy[bool] | TopicPolicy[DelayedDelivery], ...] = (
    TopicPolicy("deduplicationEnabled", DEDUPLICATION),
    TopicPolicy("delayedDelivery", DELAYED_DELIVERY),
)


def policy_routes() -> Iterator[Route[Handler]]:
    """The lines of all policies."""
    for policy in (*NAMESPACE_POLICIES, *TOPIC_POLICIES):
        yield from policy.routes()


async def _existing_namespace(broker: Broker, request: Request) -> str:
    namespace = namespace_of(request)
    if not await broker.namespaces.has(namespace):
        raise Refused(404, f"Namespace {namespace} does not exist")
    return namespace


async def _existing_topic(broker: Broker, request: Request) -> TopicName:
    topic = topic_of(request)
    if topic.partition >= 0:
        raise Refused(412, f"{topic} is a partition: policies are those of {topic.base}")
    if request.query.get("isGlobal") == "true":
        raise Refused(400, "there are no global policies: this broker is its own cluster")
    if not await broker.exists(topic):
        raise Refused(404, f"Topic {topic} not found")
    return topic


def _value(policy: Policy[T], request: Request) -> T | None:
    """What the body says; None if it is empty or null."""
    said = json_of(request) if request.body.strip() else None
    if said is None:
        return None
    try:
        return policy.form.decode(said)
    except ValueError as error:
        raise Refused(400, f"the body is no such policy: {error}") from error


def _answer(policy: Policy[T], value: T | None) -> Response:
    return text_response("") if value is None else json_response(policy.form.encode(value))
