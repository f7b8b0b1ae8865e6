"""The effective value of a policy: the topic's, the namespace's or the broker's."""

from collections.abc import Callable
from typing import Any, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.policies.policy import Origin, Policy, PolicyValues, Resolved
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Version

T = TypeVar("T")


class StoredPolicies:
    """The explicit values of one namespace or topic: JSON values by the names of policies."""

    __slots__ = ("_decoded", "key", "values", "version")

    def __init__(self, key: str, values: dict[str, Any], version: Version | None) -> None:
        self.key = key
        self.values = values
        self.version = version
        """The version of the stored values; None if nothing is stored."""
        self._decoded: dict[str, Any] = {}

    def get(self, policy: Policy[T]) -> T | None:
        """Return the explicit value; None if unset; `StorageError` if the stored one is invalid."""
        if policy.part is not None:
            whole = self.get(policy.part.of)
            member: T | None = None if whole is None else whole.get(policy.part.member)
            return member
        name = policy.name
        if name in self._decoded:
            value: T = self._decoded[name]
            return value
        if name not in self.values:
            return None
        try:
            value = self._decoded[name] = policy.codec.decode(self.values[name])
        except ValueError as error:
            # Falling back to a default could silently drop a retention: refuse instead.
            raise StorageError(
                f"{self.key} in the metadata: invalid {name}: {error}; set it again or delete it"
            ) from error
        return value

    def changed(self, values: PolicyValues) -> dict[str, Any]:
        """Return the JSON values after setting some or, with None, deleting; unknown names stay."""
        changed = dict(self.values)
        for policy, value in values.items():
            encoded = None
            if value is not None and value != policy.unset:
                encoded = policy.codec.encode(value)
            name = policy.name
            if policy.part is not None:
                name = policy.part.of.name
                encoded = _with_member(changed.get(name, {}), policy.part.member, encoded)
            if encoded is None:
                changed.pop(name, None)
            else:
                changed[name] = encoded
        return changed


def _with_member(whole: dict[str, Any], member: str, value: Any) -> dict[str, Any] | None:
    """Return an object with a member set or, for None, removed; None if no member remains."""
    others = {name: one for name, one in whole.items() if name != member}
    return (others if value is None else others | {member: value}) or None


class EffectivePolicies:
    """The values in effect for one topic, or for all topics of a namespace without explicit values.

    Immutable: when a value changes, `PolicyView` hands out another object.
    """

    __slots__ = ("_namespace", "_resolved", "_settings", "_topic", "derived")

    def __init__(
        self, topic: StoredPolicies | None, namespace: StoredPolicies | None, settings: Settings
    ) -> None:
        self._topic = topic
        self._namespace = namespace
        self._settings = settings
        self._resolved: dict[str, Resolved[Any]] = {}
        self.derived: dict[str, Any] = {}
        """Objects computed from these values, by a name that the maker chose; topics share them."""

    def resolve(self, policy: Policy[T]) -> Resolved[T]:
        """Return the effective value and its source; `StorageError` if the stored value is bad."""
        found = self._resolved.get(policy.name)
        if found is None:
            found = self._resolved[policy.name] = self._resolve(policy)
        return found

    def value(self, policy: Policy[T]) -> T:
        """Return the effective value; `StorageError` if the stored value is invalid."""
        return self.resolve(policy).value

    def _resolve(self, policy: Policy[T]) -> Resolved[T]:
        # The precedence of every policy: topic, namespace, broker.conf.
        if policy.merge is not None:
            return self._merged(policy, policy.merge)
        if self._topic is not None and (value := self._topic.get(policy)) is not None:
            return Resolved(value, Origin.TOPIC)
        if self._namespace is not None and (value := self._namespace.get(policy)) is not None:
            return Resolved(value, Origin.NAMESPACE)
        return Resolved(policy.default(self._settings), Origin.BROKER)

    def _merged(self, policy: Policy[T], merge: Callable[[T, T], T]) -> Resolved[T]:
        """Return the values of all levels, merged; the origin is the highest level with a value."""
        found = Resolved(policy.default(self._settings), Origin.BROKER)
        levels = (self._namespace, Origin.NAMESPACE), (self._topic, Origin.TOPIC)
        for stored, origin in levels:
            if stored is not None and (value := stored.get(policy)) is not None:
                found = Resolved(merge(found.value, value), origin)
        return found
