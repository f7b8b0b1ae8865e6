"""Changes of policies: stored first, then applied by every loaded topic, then answered."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from magnetar_broker.names.topic_host import TopicHost
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_broker.policies.policy import Policy, PolicyValues, Subject
from magnetar_broker.policies.stored import Policies
from magnetar_broker.policies.table import SUBSCRIPTION_AUTH_MODE
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.runtime.mutex import KeyedMutex

T = TypeVar("T")


class Enforcement:
    """Stores policies, and applies them to loaded topics; one per broker.

    Within a namespace, one change is stored and applied at a time, so the value stored last is also
    the one applied last.  `require` raises the refusal for a topic or namespace that does not exist
    or is being deleted.
    """

    def __init__(
        self,
        policies: Policies,
        topic_host: TopicHost,
        locks: TopicLocks,
        clock: Clock,
        require: Callable[[Subject], Awaitable[None]],
        partitions: Callable[[TopicName], Awaitable[int]],
        permissions_changed: Callable[[str], Awaitable[None]],
    ) -> None:
        self._policies = policies
        self._topic_host = topic_host
        self._locks = locks
        self._require = require
        self._partitions = partitions
        self._permissions_changed = permissions_changed
        self._changing: KeyedMutex[str] = KeyedMutex(clock)
        """Locks by namespace, held until all topics have applied a change."""
        self._storing: KeyedMutex[Subject] = KeyedMutex(clock)
        """Locks by subject, held until a change is stored."""

    async def set(self, subject: Subject, values: PolicyValues) -> None:
        """Set policies of a namespace or topic; durable and applied on return.

        `StorageError` if they cannot be stored: then nothing has changed.  Also if a topic cannot
        apply them: then they are stored, and all other topics have applied them.
        """
        async with self._changing.held(namespace_of(subject)):
            await self._store(subject, values)
            await self._enforce(subject)  # promise: loaded topics apply a new policy

    async def update(
        self, subject: Subject, policy: Policy[T], changed: Callable[[T | None], T | None]
    ) -> None:
        """Set a policy to what `changed` returns for its explicit value; None means unset."""
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
        """Store policies; the lock ends before topics apply them, since a deletion waits for it."""
        subject = subject if isinstance(subject, str) else subject.base
        async with self._storing.held(subject):
            await self._require(subject)
            try:
                await self._policies.set(subject, values)
            finally:  # also after an error: what was written may have reached the store
                # promise: a change of the prefix mode reaches what is open
                if SUBSCRIPTION_AUTH_MODE in values:
                    await self._permissions_changed(namespace_of(subject))

    async def _enforce(self, subject: Subject) -> None:
        await self._locks.settled(_members(subject))
        partitions = 0 if isinstance(subject, str) else await self._partitions(subject)
        await self._topic_host.apply(subject, partitions)


def namespace_of(subject: Subject) -> str:
    """Return the namespace of a topic; a namespace is returned unchanged."""
    return subject if isinstance(subject, str) else subject.namespace_name


def _members(subject: Subject) -> Callable[[TopicName], bool]:
    """Return whether policies of a subject apply to a topic."""
    if isinstance(subject, str):
        tenant, _, namespace = subject.partition("/")
        return lambda name: name.namespace == namespace and name.tenant == tenant
    base = subject.base
    return lambda name: name.local.startswith(base.local) and name.base == base
