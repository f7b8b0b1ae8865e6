"""One policy over HTTP: GET the explicit value of a namespace or topic, POST to set, DELETE.

An unset policy is an empty answer; `?applied=true` on a topic asks for the effective value
instead.  A 204 means that the policy is stored and that all loaded topics apply it.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.names.directory import Directory
from magnetar_broker.policies.codecs import Codec, OutOfRange
from magnetar_broker.policies.policy import Policy, Subject
from magnetar_broker.server.admin.context import (
    AdminContext,
    Handler,
    existing_namespace,
    existing_topic,
    serving,
    topic_of,
)
from magnetar_broker.server.admin.policies.json_schema import schema_of
from magnetar_broker.server.http.messages import (
    Refused,
    Request,
    Response,
    json_response,
    text_response,
)
from magnetar_broker.server.http.table import Route
from magnetar_proto.admin.bodies import Body
from magnetar_proto.admin.policy import Level
from magnetar_proto.names import TopicName

logger = logging.getLogger(__name__)

T = TypeVar("T")
Check = Callable[[Directory, Subject, T], Awaitable[None]]
"""A function that refuses a value that contradicts other policies of the subject."""


@dataclass(frozen=True)
class PolicyHandlers(Generic[T]):
    """One policy of namespaces or of topics, on its path."""

    policy: Policy[T]
    path: Level
    check: Check[T] | None = None

    async def on_get(self, context: AdminContext, request: Request) -> Response:
        """Answer the explicit value, or for a topic with `?applied=true` the effective one."""
        directory = serving(context)
        subject = await subject_of(directory, request)
        value: T | None
        if isinstance(subject, TopicName) and request.flag("applied"):
            return self._answer((await directory.policies.effective(self.policy, subject)).value)
        value = await directory.policies.explicit(self.policy, subject)
        if value is None and self.path.shows_default:
            value = self.policy.default(directory.settings)
        return self._answer(value)

    def _answer(self, value: T | None) -> Response:
        encoded = self.path.when_unset if value is None else self.policy.codec.encode(value)
        if encoded is None:
            return Response(status=204) if self.path.unset_status == 204 else text_response("")
        return text_response(encoded) if self.path.raw else json_response(encoded)

    async def on_set(self, context: AdminContext, request: Request) -> Response:
        """Set the policy to the value in the request."""
        directory = serving(context)
        subject = await subject_of(directory, request)
        value = self._value(request)
        if value is not None and self.policy.check is not None:
            with refusing():
                self.policy.check(directory.settings, value)
        if value is not None and self.check is not None:
            await self.check(directory, subject, value)
        await directory.enforcement.set(subject, {self.policy: value})
        status = self.path.set_status
        told = "" if value is None else self._without_effect(directory.settings, value)
        if not told:  # promise[always]: a policy without effect is told
            return Response(status=status)
        logger.info("policies of %s: %s", subject, told)
        return Response(status=status, headers={"Warning": warned(told)})

    def _without_effect(self, settings: Settings, value: T) -> str:
        """Return the parts of the value that have no effect, and why; "" without any."""
        if why := self.policy.no_effect_with(settings):
            return f"{self.path.segment} is stored without effect: {why}"
        return "" if self.policy.warning is None else self.policy.warning(settings, value)

    async def on_delete(self, context: AdminContext, request: Request) -> None:
        """Delete the policy."""
        directory = serving(context)
        await directory.enforcement.set(await subject_of(directory, request), {self.policy: None})

    def _value(self, request: Request) -> T | None:
        if self.path.in_query:
            text = request.query.get(self.path.segment)
            return None if text is None else decoded(self.policy.codec, text, bad_status=404)
        value = self._body(request) if request.body.strip() else None
        if value is not None:
            return decoded(self.policy.codec, value)
        if not self.path.empty_deletes:
            if self.path.implied is not None:
                return self.policy.codec.decode(self.path.implied)
            raise Refused(400, f"the body is empty: expected {self.path.segment} as JSON")
        return None

    def _body(self, request: Request) -> Any:
        try:
            return request.json()
        except Refused:
            if not self.path.raw:
                raise
            return request.body.decode(errors="replace").strip()

    def routes(self, level: str) -> Iterator[Route[Handler]]:
        """Yield the routes that get, set and delete the policy; some cannot be deleted."""
        required = not self.path.empty_deletes and self.path.implied is None
        body = None if self.path.in_query else Body(schema_of(self.policy.codec), "", required)
        endpoints = list(self.policy.declared.endpoints(level))
        endpoints[1] = endpoints[1]._replace(body=body)
        handlers: tuple[Handler, ...] = (self.on_get, self.on_set, self.on_delete)
        for endpoint, handler in zip(endpoints, handlers, strict=False):
            yield Route(endpoint, handler)


def without_effect(what: str, why: str) -> str:
    """Return the header `Warning` of an answer to a setter that has no effect."""
    return warned(f"{what} is stored without effect: {why}")


def warned(text: str) -> str:
    """Return the value of a header `Warning` with this text."""
    return f'299 - "{text}"'


async def subject_of(directory: Directory, request: Request) -> Subject:
    """Return the namespace or the topic that the path names, which exists and has policies."""
    if "topic" in request.parameters:
        return await topic_with_policies(directory, request)
    return await existing_namespace(directory, request)


async def topic_with_policies(directory: Directory, request: Request) -> TopicName:
    """Return the topic of the path, which exists; 412 for a partition, which has no policies."""
    topic = topic_of(request)
    if topic.partition >= 0:
        raise Refused(412, f"{topic} is a partition and has no policies: use those of {topic.base}")
    if request.flag("isGlobal"):
        raise Refused(400, "isGlobal: this broker has no global policies; leave the parameter out")
    return await existing_topic(directory, request)


def decoded(codec: Codec[T], value: Any, bad_status: int = 400) -> T:
    """Decode a value from JSON; 412 if it is out of range, else `bad_status` if it is invalid."""
    with refusing(bad_status):
        return codec.decode(value)


@contextmanager
def refusing(bad_status: int = 400) -> Iterator[None]:
    """Answer 412 to `OutOfRange`, and `bad_status` to other invalid values."""
    try:
        yield
    except OutOfRange as error:
        raise Refused(412, f"the value is out of range: {error}") from error
    except ValueError as error:
        raise Refused(bad_status, f"the value is invalid: {error}") from error
