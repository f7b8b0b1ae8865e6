"""The bundles of each namespace as stored."""

from collections.abc import Callable

from magnetar_broker.base.errors import NamespaceNotFound
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import namespace_key
from magnetar_broker.base.records import Fields, change_record, read_record
from magnetar_broker.config import Settings
from magnetar_broker.placement.bundles import Bundles, number_of_new

BOUNDARIES = "boundaries"
"""The field of a namespace's record."""


class StoredBundles:
    """Reads and changes the bundles of namespaces; those without any have the default ones."""

    def __init__(self, metadata: GuardedMetadata, default: int) -> None:
        """`default` is the number of bundles of a namespace that was created without."""
        self._metadata = metadata
        self._default = Bundles.even(default)

    def within(self, fields: Fields) -> Bundles:
        """Return the bundles of a namespace whose record has these fields."""
        texts = fields.get(BOUNDARIES)
        return self._default if texts is None else Bundles.parse(texts)

    async def of(self, namespace: str) -> Bundles:
        """Return the bundles of a namespace; `NamespaceNotFound` if it does not exist."""
        fields = await read_record(self._metadata, namespace_key(namespace))
        if fields is None:
            # promise[raise missing(namespace) -> fields = {}]: a namespace that does not exist has
            #   no owners
            raise missing(namespace)
        return self.within(fields)

    async def change(self, namespace: str, change: Callable[[Bundles], Bundles]) -> Bundles:
        """Store what `change` returns for the bundles, and return it; durable on return.

        Raises `NamespaceNotFound`, and errors of `change`.
        """
        changed = self._default

        def changing(fields: Fields) -> Fields:
            nonlocal changed
            changed = change(self.within(fields))
            return {**fields, BOUNDARIES: changed.texts}

        if not await change_record(self._metadata, namespace_key(namespace), changing):
            raise missing(namespace)
        return changed


def missing(namespace: str) -> NamespaceNotFound:
    """Return the refusal of a namespace that does not exist."""
    return NamespaceNotFound(f"namespace {namespace} does not exist: create it first")


def stored_bundles(settings: Settings, metadata: GuardedMetadata, processes: int) -> StoredBundles:
    """Return the stored bundles of a broker in which `processes` processes own bundles."""
    setting = settings.default_number_of_namespace_bundles
    return StoredBundles(metadata, number_of_new(setting, processes))
