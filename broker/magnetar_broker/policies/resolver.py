"""What holds for a topic: said by the topic itself, its namespace, or the settings.

What was said is kept in the metadata store, one JSON object for each namespace or topic that says
anything.  The store is asked once who does: what namespaces say is in memory from then on, what a
topic says when it is loaded.  So asking waits for nothing, and topics that say nothing cost
nothing.  The partitions of a topic share its policies.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.metadata_keys import (
    POLICIES,
    namespace_of_policies,
    namespace_policies_key,
    topic_policies_key,
)
from magnetar_broker.policies.forms import Form
from magnetar_proto.names import TopicName
from magnetar_storage.errors import BadVersion, StorageError
from magnetar_storage.interfaces import ABSENT, MetadataStore, Version

T = TypeVar("T")
Subject = str | TopicName
"""Who says something: a namespace by its name, or a topic (partitions are their topic)."""

PAGE = 1000


class Origin(StrEnum):
    """Who says what holds; the first one that says anything is heard."""

    TOPIC = "topic"
    NAMESPACE = "namespace"
    BROKER = "broker"


class Resolved(NamedTuple, Generic[T]):
    """What holds, and who says so."""

    value: T
    origin: Origin


@dataclass(frozen=True, eq=False)
class Policy(Generic[T]):
    """One thing that can be said of a topic."""

    name: str
    """In the metadata store."""
    form: Form[T]
    default: Callable[[Settings], T]
    settings: tuple[str, ...] = ()
    """The fields of `Settings` that the default comes from."""
    unsaid: T | None = None
    """A value that is the same as saying nothing."""
    of_namespace: bool = True
    """Whether namespaces can say it."""
    of_topic: bool = True
    """Whether topics can say it."""


Said = Mapping[Policy[Any], Any]
"""What somebody says, by policy; None unsays."""


class _Stored:
    """What one subject says, as it is stored: JSON values by the names of policies."""

    __slots__ = ("_decoded", "key", "values", "version")

    def __init__(self, key: str, values: dict[str, Any], version: Version | None) -> None:
        self.key = key
        self.values = values
        self.version = version
        """None if nothing is stored."""
        self._decoded: dict[str, Any] = {}

    def get(self, policy: Policy[T]) -> T | None:
        """What is said, None for nothing; `StorageError` if nobody can keep to it."""
        name = policy.name
        if name in self._decoded:
            value: T = self._decoded[name]
            return value
        if name not in self.values:
            return None
        try:
            value = self._decoded[name] = policy.form.decode(self.values[name])
        except ValueError as error:
            raise StorageError(
                f"{self.key} in the metadata says {name}, but {error}; say it anew or unsay it"
            ) from error
        return value

    def changed(self, said: Said) -> dict[str, Any]:
        """The values with some said anew; names that nobody here knows stay."""
        values = dict(self.values)
        for policy, value in said.items():
            if value is None or value == policy.unsaid:
                values.pop(policy.name, None)
            else:
                values[policy.name] = policy.form.encode(value)
        return values


SILENT = _Stored("", {}, None)
"""What those say who say nothing."""


class Policies:
    """What was said of namespaces and topics; `load` a topic's before asking what holds."""

    def __init__(self, metadata: MetadataStore, settings: Settings) -> None:
        self.settings = settings
        self._metadata = metadata
        self._known: dict[Subject, _Stored] = {}
        self._defaults: dict[str, Any] = {}
        self._unread: set[str] | None = None
        """Keys of those who say something and whom nobody has asked about; None: not listed."""

    @property
    def known(self) -> int:
        """How many namespaces and topics there are in memory: those that said something."""
        return len(self._known)

    # What holds -----------------------------------------------------------------------------

    async def load(self, topic: TopicName) -> None:
        """Have the policies of a topic and its namespace in memory."""
        await self._load(topic)

    def resolve(self, policy: Policy[T], topic: TopicName) -> Resolved[T]:
        """What holds for a topic whose policies are loaded."""
        value = self._known.get(topic.base, SILENT).get(policy)
        if value is not None:
            return Resolved(value, Origin.TOPIC)
        return self.of(policy, topic.namespace_name)

    def of(self, policy: Policy[T], namespace: str) -> Resolved[T]:
        """What holds for a namespace; something must have been loaded before."""
        value = self._known.get(namespace, SILENT).get(policy)
        if value is not None:
            return Resolved(value, Origin.NAMESPACE)
        return Resolved(self._default(policy), Origin.BROKER)

    def value(self, policy: Policy[T], topic: TopicName) -> T:
        """What holds for a topic, whoever says it."""
        return self.resolve(policy, topic).value

    async def holds(self, policy: Policy[T], subject: Subject) -> Resolved[T]:
        """What holds for a topic or a namespace, loaded or not."""
        await self._load(subject)
        if isinstance(subject, str):
            return self.of(policy, subject)
        return self.resolve(policy, subject)

    def _default(self, policy: Policy[T]) -> T:
        if policy.name not in self._defaults:
            self._defaults[policy.name] = policy.default(self.settings)
        value: T = self._defaults[policy.name]
        return value

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
        key, subject = _key_of(subject), _one(subject)
        while True:
            stored = await self._read(key)
            values = stored.changed(said)
            expected = ABSENT if stored.version is None else stored.version
            try:
                version = await self._metadata.put(key, json.dumps(values).encode(), expected)
            except BadVersion:
                continue  # somebody else said something meanwhile
            self._learn(subject, _Stored(key, values, version))
            return

    async def said_by(self, subject: Subject) -> dict[str, Any]:
        """All that a subject says, as JSON by the names of policies."""
        stored = await self._load(subject)
        return {} if stored is None else dict(stored.values)

    def speaks(self, subject: Subject) -> bool:
        """Whether a subject may say anything; something must have been loaded before."""
        return _one(subject) in self._known or _key_of(subject) in (self._unread or ())

    async def forget(self, subject: Subject) -> None:
        """A topic or namespace is deleted: so is what it said; durable on return."""
        key = _key_of(subject)
        await self._metadata.delete(key)
        self._known.pop(_one(subject), None)
        if self._unread:
            self._unread.discard(key)

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

    async def _load(self, subject: Subject) -> _Stored | None:
        """What is known of a subject; reads it if it says something and was never read."""
        if self._unread is None:
            await self.start()
        subject = _one(subject)
        if self._unread and subject not in self._known:
            await self._read_said(subject, _key_of(subject))
        return self._known.get(subject)

    async def _read_said(self, subject: Subject, key: str) -> None:
        if self._unread and key in self._unread:
            stored = await self._read(key)
            if subject not in self._known:  # else somebody was faster
                self._learn(subject, stored)

    async def _read(self, key: str) -> _Stored:
        found = await self._metadata.get(key)
        if found is None:
            return _Stored(key, {}, None)
        return _Stored(key, json.loads(found.value), found.version)

    def _learn(self, subject: Subject, stored: _Stored) -> None:
        self._known[subject] = stored
        if self._unread:
            self._unread.discard(stored.key)


def _one(subject: Subject) -> Subject:
    """A topic instead of its partitions."""
    return subject if isinstance(subject, str) else subject.base


def _key_of(subject: Subject) -> str:
    if isinstance(subject, str):
        return namespace_policies_key(subject)
    return topic_policies_key(subject)
