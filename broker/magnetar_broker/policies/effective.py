"""The effective value of a policy: the topic's, the namespace's or the broker's."""

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
            if value is None or value == policy.unset:
                changed.pop(policy.name, None)
            else:
                changed[policy.name] = policy.codec.encode(value)
        return changed


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
        if self._topic is not None and (value := self._topic.get(policy)) is not None:
            return Resolved(value, Origin.TOPIC)
        if self._namespace is not None and (value := self._namespace.get(policy)) is not None:
            return Resolved(value, Origin.NAMESPACE)
        return Resolved(policy.default(self._settings), Origin.BROKER)
