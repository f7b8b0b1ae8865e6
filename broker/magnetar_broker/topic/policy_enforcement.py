"""Changes of policies: stored first, then applied by every loaded topic, then answered."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from magnetar_broker.base.parallel import for_each
from magnetar_broker.policies.policy import Policy, PolicyValues, Subject
from magnetar_broker.policies.resolver import Policies
from magnetar_broker.topic.loaded_topics import AnyTopic, Topics
from magnetar_proto.names import TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine
from magnetar_storage.world.mutex import KeyedMutex
from magnetar_storage.world.runtime import yield_turn

T = TypeVar("T")
TOPICS_A_TURN = 2
"""Topics that each of the `WIDTH` workers changes in one turn of the loop: a few milliseconds."""


class Enforcement:
    """One per broker.  Within a namespace, one change is stored and applied at a time.

    So the value stored last is also the one applied last.  `require` raises the refusal for a
    topic or namespace that does not exist or is being deleted.
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
        self._changing: KeyedMutex[str] = KeyedMutex(engine.clock)
        """By namespace: held until all topics have applied a change."""
        self._storing: KeyedMutex[Subject] = KeyedMutex(engine.clock)
        """By subject: held until a change is stored."""
        self._changes = count(1)

    async def set(self, subject: Subject, values: PolicyValues) -> None:
        """Set policies of a namespace or topic; durable and applied on return.

        `StorageError` if they cannot be stored: then nothing has changed.  Also if a topic cannot
        apply them: then they are stored, and all other topics have applied them.
        """
        async with self._changing.held(namespace_of(subject)):
            await self._store(subject, values)
            await self._enforce(subject)

    async def update(
        self, subject: Subject, policy: Policy[T], changed: Callable[[T | None], T | None]
    ) -> None:
        """`set` one policy to what `changed` makes of its explicit value (None: unset)."""
        async with self._changing.held(namespace_of(subject)):
            explicit = await self._policies.explicit(policy, subject)
            await self._store(subject, {policy: changed(explicit)})
            await self._enforce(subject)

    async def delete(self, subject: Subject) -> None:
        """Delete all policies of a namespace or topic that is being deleted; durable on return.

        `require` must refuse it already, so that no policy can be set afterwards.
        """
        if self._policies.has_explicit(subject) or self._storing.is_held(subject):
            async with self._storing.held(subject):
                await self._policies.delete(subject)

    async def _store(self, subject: Subject, values: PolicyValues) -> None:
        """Releases its lock before topics apply the change: a deletion waits for this one."""
        subject = subject if isinstance(subject, str) else subject.base
        async with self._storing.held(subject):
            await self._require(subject)
            await self._policies.set(subject, values)

    async def _enforce(self, subject: Subject) -> None:
        """Concurrently: some topics write, and share a sync."""
        await self._topics.locks.settled(_members(subject))
        await for_each(self._engine, await self._loaded(subject), self._changed)

    async def _loaded(self, subject: Subject) -> list[AnyTopic]:
        """The loaded topics to which policies of a subject apply."""
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
            # It has ended meanwhile, and applies the policies when it is loaded again.
        if next(self._changes) % TOPICS_A_TURN == 0:
            await yield_turn(self._engine.clock)


def namespace_of(subject: Subject) -> str:
    """The namespace of a topic; a namespace itself."""
    return subject if isinstance(subject, str) else subject.namespace_name


def _members(subject: Subject) -> Callable[[TopicName], bool]:
    """Whether policies of a subject apply to a topic."""
    if isinstance(subject, str):
        tenant, _, namespace = subject.partition("/")
        return lambda name: name.namespace == namespace and name.tenant == tenant
    base = subject.base
    return lambda name: name.local.startswith(base.local) and name.base == base
