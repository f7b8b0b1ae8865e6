"""Setting policies: first on disk, then kept to by every loaded topic, then answered."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from magnetar_broker.pauses import pause
from magnetar_broker.policies import Policies, Policy, Said, Subject
from magnetar_broker.topics import AnyTopic, Topics
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.world import Clock, Promise

T = TypeVar("T")
TOPICS_A_TURN = 50
"""Topics that change in one turn of the loop: a few milliseconds."""


class Enforcement:
    """One per broker.  In one namespace policies are set one after the other.

    So the last one that was stored is the one that is kept to.
    """

    def __init__(self, policies: Policies, topics: Topics, clock: Clock) -> None:
        self._policies = policies
        self._topics = topics
        self._clock = clock
        self._busy: dict[str, Promise] = {}

    async def say(self, subject: Subject, said: Said) -> None:
        """Have a namespace, or a topic, say this; durable and enforced on return.

        `StorageError` if it could not be stored: then nothing has changed.  Also if a topic cannot
        keep to it, after all others do.
        """
        async with self._alone(subject):
            await self._policies.say(subject, said)
            await self._enforce(_members(subject))

    async def change(
        self, subject: Subject, policy: Policy[T], changed: Callable[[T | None], T | None]
    ) -> None:
        """The same for a value that is made out of the present one (None: nothing is said)."""
        async with self._alone(subject):
            said = await self._policies.said(policy, subject)
            await self._policies.say(subject, {policy: changed(said)})
            await self._enforce(_members(subject))

    @asynccontextmanager
    async def _alone(self, subject: Subject) -> AsyncIterator[None]:
        namespace = subject if isinstance(subject, str) else subject.namespace_name
        while (other := self._busy.get(namespace)) is not None:
            await other
        busy = self._busy[namespace] = self._clock.promise()
        try:
            yield
        finally:
            del self._busy[namespace]
            busy.set_result(None)

    async def _enforce(self, is_meant: Callable[[TopicName], bool]) -> None:
        await self._topics.settled(is_meant)
        failure: StorageError | None = None
        meant = [topic for topic in self._topics if is_meant(topic.name)]
        for number, topic in enumerate(meant, 1):
            failure = await self._changed(topic) or failure
            if number % TOPICS_A_TURN == 0:
                await pause(self._clock)
        if failure is not None:
            raise failure

    async def _changed(self, topic: AnyTopic) -> StorageError | None:
        try:
            await topic.policies_changed()
        except StorageError as error:
            if self._topics.get(topic.name) is topic:
                return error
            # It has ended meanwhile: it keeps to them when it is loaded anew.
        return None


def _members(subject: Subject) -> Callable[[TopicName], bool]:
    """Which topics keep to what a subject says; asked of all that are loaded."""
    if isinstance(subject, str):
        tenant, _, namespace = subject.partition("/")
        return lambda name: name.namespace == namespace and name.tenant == tenant
    base = subject.base
    return lambda name: name.local.startswith(base.local) and name.base == base
