"""One policy over HTTP: GET what a namespace or topic says, POST to say it, DELETE to unsay it.

Nothing said is an empty answer; `?applied=true` on a topic asks what holds instead, whoever says
it.  A 204 means that the policy is on disk and that the topics keep to it.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from magnetar_broker.broker import Broker
from magnetar_broker.policies import Policy, Subject
from magnetar_broker.policies.forms import Form, OutOfRange
from magnetar_broker.server.admin.site import (
    NAMESPACE,
    TOPIC,
    Handler,
    Site,
    existing_namespace,
    existing_topic,
    flag_of,
    json_of,
    serving,
    topic_of,
)
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response, text_response
from magnetar_broker.server.http.table import Route
from magnetar_proto.names import TopicName

T = TypeVar("T")
Check = Callable[[Broker, Subject, T], Awaitable[None]]
"""Refuses a value that does not go with other policies."""


@dataclass(frozen=True, kw_only=True)
class Line(Generic[T]):
    """One policy on one path of namespaces, or of topics."""

    segment: str
    policy: Policy[T]
    verb: str = "POST"
    unset: T | None = None
    """What GET answers if nothing is said; None is an empty body."""
    unset_status: int = 200
    """With that empty body."""
    empty_unsays: bool = False
    """Whether a body that is empty or null unsays it, rather than being refused."""
    removable: bool = True
    """Whether there is a DELETE."""
    parameter: str = ""
    """The name in the query that holds the value, where that is not in the body."""
    check: Check[T] | None = None

    def answer(self, value: T | None) -> Response:
        """What GET answers."""
        if value is None:
            value = self.unset
        if value is None:
            return Response(status=204) if self.unset_status == 204 else text_response("")
        return json_response(self.policy.form.encode(value))

    async def say(self, broker: Broker, subject: Subject, request: Request) -> Response:
        """Have the subject say what the request brings."""
        value = self._value(request)
        if value is not None and self.check is not None:
            await self.check(broker, subject, value)
        await broker.enforcement.say(subject, {self.policy: value})
        return Response(status=204)

    async def unsay(self, broker: Broker, subject: Subject) -> Response:
        """Have the subject say nothing."""
        await broker.enforcement.say(subject, {self.policy: None})
        return Response(status=204)

    def _value(self, request: Request) -> T | None:
        if self.parameter:
            text = request.query.get(self.parameter)
            return None if text is None else decoded(self.policy.form, text, bad_status=404)
        said = json_of(request) if request.body.strip() else None
        if said is not None:
            return decoded(self.policy.form, said)
        if not self.empty_unsays:
            raise Refused(400, f"the body is empty: expected {self.segment} as JSON")
        return None


class NamespaceLine(Line[T]):
    """The handlers of one policy of namespaces."""

    async def on_get(self, site: Site, request: Request) -> Response:
        """What the namespace says."""
        broker = serving(site)
        namespace = await existing_namespace(broker, request)
        said: T | None = await broker.policies.said(self.policy, namespace)
        return self.answer(said)

    async def on_set(self, site: Site, request: Request) -> Response:
        """Say it."""
        broker = serving(site)
        return await self.say(broker, await existing_namespace(broker, request), request)

    async def on_delete(self, site: Site, request: Request) -> Response:
        """Unsay it."""
        broker = serving(site)
        return await self.unsay(broker, await existing_namespace(broker, request))

    def routes(self) -> Iterator[Route[Handler]]:
        """What is answered on the path."""
        path = f"/admin/v2/namespaces/{NAMESPACE}/{self.segment}"
        yield Route("GET", path, self.on_get)
        yield Route(self.verb, path, self.on_set)
        if self.removable:
            yield Route("DELETE", path, self.on_delete)


class TopicLine(Line[T]):
    """The handlers of one policy of topics."""

    async def on_get(self, site: Site, request: Request) -> Response:
        """What the topic says, or what holds for it."""
        broker = serving(site)
        topic = await speaking_topic(broker, request)
        if flag_of(request, "applied"):
            return self.answer((await broker.policies.holds(self.policy, topic)).value)
        said: T | None = await broker.policies.said(self.policy, topic)
        return self.answer(said)

    async def on_set(self, site: Site, request: Request) -> Response:
        """Say it."""
        broker = serving(site)
        return await self.say(broker, await speaking_topic(broker, request), request)

    async def on_delete(self, site: Site, request: Request) -> Response:
        """Unsay it."""
        broker = serving(site)
        return await self.unsay(broker, await speaking_topic(broker, request))

    def routes(self) -> Iterator[Route[Handler]]:
        """What is answered on the path."""
        path = f"/admin/v2/{TOPIC}/{self.segment}"
        yield Route("GET", path, self.on_get)
        yield Route(self.verb, path, self.on_set)
        if self.removable:
            yield Route("DELETE", path, self.on_delete)


async def speaking_topic(broker: Broker, request: Request) -> TopicName:
    """The topic that the path names, which may say something; 412 for a partition."""
    topic = topic_of(request)
    if topic.partition >= 0:
        raise Refused(412, f"{topic} is a partition: policies are those of {topic.base}")
    if flag_of(request, "isGlobal"):
        raise Refused(400, "there are no global policies: this broker is its own cluster")
    return await existing_topic(broker, request)


def decoded(form: Form[T], said: Any, bad_status: int = 400) -> T:
    """What was said as a value; 412 if it is out of range, `bad_status` if it is no value."""
    try:
        return form.decode(said)
    except OutOfRange as error:
        raise Refused(412, f"this policy may not be so: {error}") from error
    except ValueError as error:
        raise Refused(bad_status, f"this is no such policy: {error}") from error
