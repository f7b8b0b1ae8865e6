"""What is said, and what holds then."""

from typing import Any, TypeVar

from magnetar_broker.config import Settings
from magnetar_broker.policies.policy import Origin, Policy, Resolved, Said
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import Version

T = TypeVar("T")


class Stored:
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


class Holding:
    """What holds for a topic, or for all those of a namespace that say nothing themselves."""

    __slots__ = ("_above", "_own", "_resolved", "_settings", "derived")

    def __init__(self, own: Stored | None, above: Stored | None, settings: Settings) -> None:
        self._own = own
        self._above = above
        self._settings = settings
        self._resolved: dict[str, Resolved[Any]] = {}
        self.derived: dict[str, Any] = {}
        """What was made out of it, for topics to share; each maker has a name."""

    def resolve(self, policy: Policy[T]) -> Resolved[T]:
        """What holds, and who says so; `StorageError` if nobody can keep to what is said."""
        found = self._resolved.get(policy.name)
        if found is None:
            found = self._resolved[policy.name] = self._resolve(policy)
        return found

    def value(self, policy: Policy[T]) -> T:
        """The same, whoever says it."""
        return self.resolve(policy).value

    def _resolve(self, policy: Policy[T]) -> Resolved[T]:
        if self._own is not None and (own := self._own.get(policy)) is not None:
            return Resolved(own, Origin.TOPIC)
        if self._above is not None and (above := self._above.get(policy)) is not None:
            return Resolved(above, Origin.NAMESPACE)
        return Resolved(policy.default(self._settings), Origin.BROKER)
