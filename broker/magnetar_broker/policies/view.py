"""Effective policies of loaded topics, from values in memory.

Precedence, for each policy separately: the topic's value, else its namespace's, else the settings'.
A policy with `merge`, such as offloading, joins the members of the three.
The partitions of a topic share its policies.
"""

from collections.abc import Iterator
from typing import TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.policies.effective import EffectivePolicies, StoredPolicies
from magnetar_broker.policies.policy import Policy, Resolved, Subject
from magnetar_proto.names import TopicName

T = TypeVar("T")
K = TypeVar("K")


class PolicyView:
    """The policies that serving topics needs, without waiting.

    It knows the explicit values of namespaces, and of topics that have any.  Its user reads and
    changes them in the metadata store, and calls `learn` before a topic is loaded, and before it
    applies a change.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._namespaces: dict[str, StoredPolicies] = {}
        self._topics: dict[TopicName, StoredPolicies] = {}
        self._of_namespaces: dict[str, EffectivePolicies] = {}
        """The effective values of topics without explicit ones, by namespace."""

    def change_settings(self, settings: Settings) -> None:
        """Replace the settings, which are the defaults of policies."""
        self.settings = settings
        self._of_namespaces.clear()

    @property
    def known(self) -> int:
        """The number of namespaces and topics with explicit values in memory."""
        return len(self._namespaces) + len(self._topics)

    def learn(self, subject: Subject, stored: StoredPolicies | None) -> None:
        """Replace the explicit values of a subject; None if it was deleted."""
        if isinstance(subject, str):
            _put(self._namespaces, subject, stored)
            self._of_namespaces.pop(subject, None)
        else:
            _put(self._topics, subject.base, stored)

    def all(self) -> Iterator[tuple[Subject, StoredPolicies]]:
        """Yield all explicit values that are in memory."""
        yield from self._namespaces.items()
        yield from self._topics.items()

    def effective_policies(self, topic: TopicName) -> EffectivePolicies:
        """Return all effective values of a loaded topic, as of now."""
        own = self._topics.get(topic.base) if self._topics else None
        if own is None:
            return self._of_namespace(topic.namespace_name)
        return EffectivePolicies(own, self._namespaces.get(topic.namespace_name), self.settings)

    def resolve(self, policy: Policy[T], topic: TopicName) -> Resolved[T]:
        """Return the effective value of a loaded topic, and its source."""
        return self.effective_policies(topic).resolve(policy)

    def value(self, policy: Policy[T], topic: TopicName) -> T:
        """Return the effective value of a loaded topic."""
        return self.effective_policies(topic).resolve(policy).value

    def of_namespace(self, policy: Policy[T], namespace: str) -> Resolved[T]:
        """Return the effective value of a namespace with loaded policies, and its source."""
        return self._of_namespace(namespace).resolve(policy)

    def _of_namespace(self, namespace: str) -> EffectivePolicies:
        effective = self._of_namespaces.get(namespace)
        if effective is None:
            stored = self._namespaces.get(namespace)
            effective = EffectivePolicies(None, stored, self.settings)
            self._of_namespaces[namespace] = effective
        return effective

    def _explicit(self, subject: Subject) -> StoredPolicies | None:
        if isinstance(subject, str):
            return self._namespaces.get(subject)
        return self._topics.get(subject.base)


def _put(known: dict[K, StoredPolicies], key: K, stored: StoredPolicies | None) -> None:
    if stored is None:
        known.pop(key, None)
    else:
        known[key] = stored
