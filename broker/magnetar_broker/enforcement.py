"""Setting policies: first on disk, then kept to by every loaded topic, then answered."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import TypeVar

from magnetar_broker.parallel import for_each
from magnetar_broker.pauses import pause
from magnetar_broker.policies import Policies, Policy, Said, Subject
from magnetar_broker.topics import AnyTopic, Topics
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log import Engine
from magnetar_storage.world import Promise

T = TypeVar("T")
TOPICS_A_TURN = 2
"""Topics that each of the `WIDTH` workers changes in one turn of the loop: a few milliseconds."""


class Enforcement:
    """One per broker.  In one namespace policies are set one after the other.

    So the last one that was stored is the one that is kept to.  `require` raises the refusal for
    a topic or namespace that does not exist or is being deleted.
    """

    def __init__(
        self,
        policies: Policies,
        topics: Topics,
        engine: Engine,
        require: Callable[[Subject], Awaitable[None]],
        partitions: Callable[[TopicName], Awaitable[int]],
    ) -> None:
        self._policies = policies
        self._topics = topics
        self._engine = engine
        self._require = require
        self._partitions = partitions
        self._setting: dict[Subject, Promise] = {}
        self._storing: dict[Subject, Promise] = {}
        self._changes = count(1)

    async def say(self, subject: Subject, said: Said) -> None:
        """Have a namespace, or a topic, say this; durable and enforced on return.

        `StorageError` if it could not be stored: then nothing has changed.  Also if a topic cannot
        keep to it, after all others do.
        """
        async with self._alone(self._setting, namespace_of(subject)):
            await self._store(subject, said)
            await self._enforce(subject)

    async def change(
        self, subject: Subject, policy: Policy[T], changed: Callable[[T | None], T | None]
    ) -> None:
        """The same for a value that is made out of the present one (None: nothing is said)."""
        async with self._alone(self._setting, namespace_of(subject)):
            said = await self._policies.said(policy, subject)
            await self._store(subject, {policy: changed(said)})
            await self._enforce(subject)

    async def forget(self, subject: Subject) -> None:
        """A namespace or topic is being deleted: it says nothing any more; durable on return.

        It must be refused by `require` already, so that nobody can have it say anything again.
        """
        if self._policies.speaks(subject) or subject in self._storing:
            async with self._alone(self._storing, subject):
                await self._policies.forget(subject)

    async def _store(self, subject: Subject, said: Said) -> None:
        """Not while topics are waited for: whoever deletes one waits for this."""
        subject = subject if isinstance(subject, str) else subject.base
        async with self._alone(self._storing, subject):
            await self._require(subject)
            await self._policies.say(subject, said)

    @asynccontextmanager
    async def _alone(self, busy: dict[Subject, Promise], subject: Subject) -> AsyncIterator[None]:
        while (other := busy.get(subject)) is not None:
            await other
        mine = busy[subject] = self._engine.clock.promise()
        try:
            yield
        finally:
            del busy[subject]
            mine.set_result(None)

    async def _enforce(self, subject: Subject) -> None:
        """Side by side, for some write: so they share what a write to the disk costs."""
        await self._topics.settled(_members(subject))
        await for_each(self._engine, await self._loaded(subject), self._changed)

    async def _loaded(self, subject: Subject) -> list[AnyTopic]:
        """The loaded topics that keep to what a subject says; others are not asked."""
        if isinstance(subject, str):
            return self._topics.of_namespace(subject)
        base, partitions = subject.base, await self._partitions(subject)
        names = [base, *(base.with_partition(index) for index in range(partitions))]
        return [topic for name in names if (topic := self._topics.get(name)) is not None]

    async def _changed(self, topic: AnyTopic) -> None:
        try:
            await topic.policies_changed()
        except StorageError:
            if self._topics.get(topic.name) is topic:
                raise
            # It has ended meanwhile: it keeps to them when it is loaded anew.
        if next(self._changes) % TOPICS_A_TURN == 0:
            await pause(self._engine.clock)


def namespace_of(subject: Subject) -> str:
    """The namespace of a topic; a namespace itself."""
    return subject if isinstance(subject, str) else subject.namespace_name


def _members(subject: Subject) -> Callable[[TopicName], bool]:
    """Which topics keep to what a subject says."""
    if isinstance(subject, str):
        tenant, _, namespace = subject.partition("/")
        return lambda name: name.namespace == namespace and name.tenant == tenant
    base = subject.base
    return lambda name: name.local.startswith(base.local) and name.base == base
