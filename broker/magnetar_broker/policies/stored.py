"""Explicit policies of namespaces and topics, as the metadata store has them.

The store has one JSON object for each namespace or topic with explicit values.  Their keys are
listed once.  From then on the values of namespaces are in memory; a topic's values are read when
the topic is loaded.  So effective values are available without waiting, and a topic without
explicit values costs no memory.
"""

import json
from typing import Any, TypeVar

from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import (
    POLICIES,
    namespace_of_policies,
    namespace_policies_key,
    topic_policies_key,
)
from magnetar_broker.config import Settings
from magnetar_broker.policies.effective import StoredPolicies
from magnetar_broker.policies.policy import Policy, PolicyValues, Resolved, Subject
from magnetar_broker.policies.view import PolicyView
from magnetar_proto.names import TopicName
from magnetar_storage.errors import BadVersion, Corrupt, StorageError, Unavailable
from magnetar_storage.interfaces import ABSENT, Version

T = TypeVar("T")


class Policies(PolicyView):
    """The policies of all namespaces and topics, and the view of those that were read.

    One per broker.  The methods without `async` need the values in memory: call `load` for the
    topic before.
    """

    def __init__(self, metadata: GuardedMetadata, settings: Settings) -> None:
        super().__init__(settings)
        self._metadata = metadata
        self._unread: set[str] | None = None
        """Keys in the store that have not been read yet; None until they are listed."""

    async def load(self, topic: TopicName) -> None:
        """Read the policies of a topic and its namespace into memory."""
        await self._load(topic)

    async def effective(self, policy: Policy[T], subject: Subject) -> Resolved[T]:
        """Return the effective value of a topic or namespace, and its source; may load it."""
        await self._load(subject)
        if isinstance(subject, str):
            return self.of_namespace(policy, subject)
        return self.resolve(policy, subject)

    # Explicit values ------------------------------------------------------------------------

    async def explicit(self, policy: Policy[T], subject: Subject) -> T | None:
        """Return the value that is set on the subject itself; None if unset."""
        stored = await self._load(subject)
        return None if stored is None else stored.get(policy)

    async def set(self, subject: Subject, values: PolicyValues) -> None:
        """Store values of a subject, in one step; durable on return.

        Loaded topics do not apply them yet: use `Enforcement.set`, which also lets one caller at
        a time change a subject.
        """
        key = _key_of(subject)
        while True:
            stored = await self._read(key)
            changed = stored.changed(values)
            try:
                version = await self._put(key, changed, stored)
            except BadVersion:
                continue  # a concurrent change was stored: apply this one on top of it
            except StorageError:
                self._mark_unread(key)
                raise
            self.learn(subject, StoredPolicies(key, changed, version))
            return

    async def _put(self, key: str, values: dict[str, Any], before: StoredPolicies) -> Version:
        expected = ABSENT if before.version is None else before.version
        try:
            return await self._metadata.put(key, json.dumps(values).encode(), expected)
        except Unavailable:
            # The write may have reached the store before the error: the stored version shows it.
            now = await self._read(key)
            if now.version is None or now.version == before.version:
                raise
            return now.version

    async def values_of(self, subject: Subject) -> dict[str, Any]:
        """Return all explicit values of a subject, as JSON by the names of policies."""
        stored = await self._load(subject)
        return {} if stored is None else dict(stored.values)

    def has_explicit(self, subject: Subject) -> bool:
        """Return whether the store may have values of a subject; any subject was loaded before."""
        return self._explicit(subject) is not None or _key_of(subject) in (self._unread or ())

    async def delete(self, subject: Subject) -> None:
        """Delete all explicit values of a topic or namespace that is deleted; durable on return."""
        key = _key_of(subject)
        try:
            await self._metadata.delete(key)
        except StorageError:
            self.learn(subject, None)
            self._mark_unread(key)
            raise
        self.learn(subject, None)

    # The store --------------------------------------------------------------------------------

    async def reload(self) -> None:
        """Replace what is in memory by what the store has: the values of namespaces, and of topics
        whose values were in memory.  No values change meanwhile.
        """
        before, known = self._unread, dict(self.all())
        subjects = {stored.key: subject for subject, stored in known.items()}
        found, unread, after = dict[Subject, StoredPolicies](), set[str](), ""
        while page := await self._metadata.read_under(POLICIES, after):
            for key, stored in page:
                subject = namespace_of_policies(key) or subjects.get(key)
                if subject is None:
                    unread.add(key)
                elif isinstance(stored, Corrupt):
                    raise stored
                else:
                    found[subject] = StoredPolicies(key, json.loads(stored.value), stored.version)
            after = page[-1][0]
        if self._unread is not before:
            return  # a concurrent call has read them, and they may have changed since
        self._unread = unread
        for subject in known.keys() - found.keys():
            self.learn(subject, None)
        for subject, values in found.items():
            if subject not in known or known[subject].version != values.version:
                self.learn(subject, values)

    async def _load(self, subject: Subject) -> StoredPolicies | None:
        """Return the explicit values of a subject, read on first use; None without any."""
        if self._unread is None:
            await self.reload()
        if self._is_unread(subject):
            stored = await self._read(_key_of(subject))
            # Ask again: a concurrent call may have read, set or deleted it during the await.
            if self._is_unread(subject):
                self.learn(subject, stored)
        return self._explicit(subject)

    def _mark_unread(self, key: str) -> None:
        """Mark a subject to be read again: after a failed write only the store knows."""
        if self._unread is not None:
            self._unread.add(key)

    def _is_unread(self, subject: Subject) -> bool:
        if not self._unread:
            return False
        return _key_of(subject) in self._unread

    async def _read(self, key: str) -> StoredPolicies:
        found = await self._metadata.get(key)
        if found is None:
            return StoredPolicies(key, {}, None)
        return StoredPolicies(key, json.loads(found.value), found.version)

    def learn(self, subject: Subject, stored: StoredPolicies | None) -> None:
        """Keep the stored values in memory; None if the subject was deleted."""
        super().learn(subject, stored)
        if self._unread:
            self._unread.discard(_key_of(subject))


def _key_of(subject: Subject) -> str:
    if isinstance(subject, str):
        return namespace_policies_key(subject)
    return topic_policies_key(subject)
