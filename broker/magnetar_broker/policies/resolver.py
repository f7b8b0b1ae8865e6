"""What holds for a topic: said by the topic itself, its namespace, or the settings.

What was said is kept in the metadata store, one JSON object for each namespace or topic that says
anything.  The store is asked once who does: what namespaces say is in memory from then on, what a
topic says when it is loaded.  So asking waits for nothing, and topics that say nothing cost
nothing.  The partitions of a topic share its policies.
"""

import json
from typing import Any, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.metadata_keys import (
    POLICIES,
    namespace_of_policies,
    namespace_policies_key,
    topic_policies_key,
)
from magnetar_broker.policies.holding import Holding, Stored
from magnetar_broker.policies.policy import Policy, Resolved, Said, Subject
from magnetar_proto.names import TopicName
from magnetar_storage.errors import BadVersion, StorageError, Unavailable
from magnetar_storage.interfaces import ABSENT, MetadataStore, Version

T = TypeVar("T")
K = TypeVar("K")
PAGE = 1000


class Policies:
    """What was said of namespaces and topics; `load` a topic's before asking what holds."""

    def __init__(self, metadata: MetadataStore, settings: Settings) -> None:
        self.settings = settings
        self._metadata = metadata
        self._namespaces: dict[str, Stored] = {}
        self._topics: dict[TopicName, Stored] = {}
        self._silent: dict[str, Holding] = {}
        """By namespace: what holds for its topics that say nothing."""
        self._unread: set[str] | None = None
        """Keys of those who say something and whom nobody has asked about; None: not listed."""

    @property
    def known(self) -> int:
        """How many namespaces and topics there are in memory: those that said something."""
        return len(self._namespaces) + len(self._topics)

    # What holds -----------------------------------------------------------------------------

    async def load(self, topic: TopicName) -> None:
        """Have the policies of a topic and its namespace in memory."""
        await self._load(topic)

    def holding(self, topic: TopicName) -> Holding:
        """All that holds for a topic whose policies are loaded, until somebody says something."""
        own = self._topics.get(topic.base) if self._topics else None
        if own is None:
            return self._above(topic.namespace_name)
        return Holding(own, self._namespaces.get(topic.namespace_name), self.settings)

    def _above(self, namespace: str) -> Holding:
        holding = self._silent.get(namespace)
        if holding is None:
            stored = self._namespaces.get(namespace)
            holding = self._silent[namespace] = Holding(None, stored, self.settings)
        return holding

    def resolve(self, policy: Policy[T], topic: TopicName) -> Resolved[T]:
        """What holds for a topic whose policies are loaded."""
        return self.holding(topic).resolve(policy)

    def value(self, policy: Policy[T], topic: TopicName) -> T:
        """The same, whoever says it."""
        return self.holding(topic).resolve(policy).value

    def of(self, policy: Policy[T], namespace: str) -> Resolved[T]:
        """What holds for a namespace; something must have been loaded before."""
        return self._above(namespace).resolve(policy)

    async def holds(self, policy: Policy[T], subject: Subject) -> Resolved[T]:
        """What holds for a topic or a namespace, loaded or not."""
        await self._load(subject)
        if isinstance(subject, str):
            return self.of(policy, subject)
        return self.resolve(policy, subject)

    # What a namespace or a topic itself says -----------------------------------------------

    async def said(self, policy: Policy[T], subject: Subject) -> T | None:
        """What a subject says; None if nothing."""
        stored = await self._load(subject)
        return None if stored is None else stored.get(policy)

    async def say(self, subject: Subject, said: Said) -> None:
        """Store what a subject says, in one step; durable on return.

        Nobody keeps to it yet: see `Enforcement`, which also has one subject spoken for by one
        at a time.
        """
        key = _key_of(subject)
        while True:
            stored = await self._read(key)
            values = stored.changed(said)
            try:
                version = await self._put(key, values, stored)
            except BadVersion:
                continue  # somebody else said something meanwhile
            self._learn(subject, Stored(key, values, version))
            return

    async def _put(self, key: str, values: dict[str, Any], before: Stored) -> Version:
        expected = ABSENT if before.version is None else before.version
        try:
            return await self._metadata.put(key, json.dumps(values).encode(), expected)
        except Unavailable:
            now = await self._read(key)
            if now.version is None or now.version == before.version:
                raise
            return now.version  # it was stored all the same

    async def said_by(self, subject: Subject) -> dict[str, Any]:
        """All that a subject says, as JSON by the names of policies."""
        stored = await self._load(subject)
        return {} if stored is None else dict(stored.values)

    def speaks(self, subject: Subject) -> bool:
        """Whether a subject may say anything; something must have been loaded before."""
        return self._known(subject) is not None or _key_of(subject) in (self._unread or ())

    async def forget(self, subject: Subject) -> None:
        """A topic or namespace is deleted: so is what it said; durable on return."""
        key = _key_of(subject)
        try:
            await self._metadata.delete(key)
        except StorageError:
            self._learn(subject, None)
            if self._unread is not None:
                self._unread.add(key)  # whether it was deleted is known only to the store
            raise
        self._learn(subject, None)

    # The store --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find out who says something, and read what namespaces say."""
        keys: list[str] = []
        while True:
            page = await self._metadata.list(POLICIES, keys[-1] if keys else "", PAGE)
            keys += page
            if len(page) < PAGE:
                break
        self._unread = set(keys)
        for key in keys:
            if (namespace := namespace_of_policies(key)) is not None:
                await self._load(namespace)

    async def _load(self, subject: Subject) -> Stored | None:
        """What is known of a subject; reads it if it says something and was never read."""
        if self._unread is None:
            await self.start()
        if self._is_unread(subject):
            stored = await self._read(_key_of(subject))
            if self._is_unread(subject):  # else somebody was faster, or it was deleted meanwhile
                self._learn(subject, stored)
        return self._known(subject)

    def _is_unread(self, subject: Subject) -> bool:
        if not self._unread:
            return False
        return _key_of(subject) in self._unread

    async def _read(self, key: str) -> Stored:
        found = await self._metadata.get(key)
        if found is None:
            return Stored(key, {}, None)
        return Stored(key, json.loads(found.value), found.version)

    def _known(self, subject: Subject) -> Stored | None:
        if isinstance(subject, str):
            return self._namespaces.get(subject)
        return self._topics.get(subject.base)

    def _learn(self, subject: Subject, stored: Stored | None) -> None:
        """What a subject says now; None if it does not exist any more."""
        if isinstance(subject, str):
            _put(self._namespaces, subject, stored)
            self._silent.pop(subject, None)
        else:
            _put(self._topics, subject.base, stored)
        if self._unread:
            self._unread.discard(_key_of(subject))


def _put(known: dict[K, Stored], key: K, stored: Stored | None) -> None:
    if stored is None:
        known.pop(key, None)
    else:
        known[key] = stored


def _key_of(subject: Subject) -> str:
    if isinstance(subject, str):
        return namespace_policies_key(subject)
    return topic_policies_key(subject)
