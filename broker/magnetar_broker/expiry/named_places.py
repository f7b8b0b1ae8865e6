"""The places of objects that the settings and policies of a broker name."""

import json
from typing import NamedTuple

from magnetar_broker.base.metadata_keys import POLICIES, namespace_of_policies
from magnetar_broker.config import Settings
from magnetar_broker.config.offload_places import members_in
from magnetar_broker.policies.effective import StoredPolicies
from magnetar_broker.policies.offload_values import merged, offload_rules
from magnetar_broker.policies.table import OFFLOAD
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import MetadataStore


class NamedPlaces(NamedTuple):
    """The places, and the errors of the policies that may name others."""

    places: set[str]
    unreadable: list[Corrupt]


async def named_places(metadata: MetadataStore, settings: Settings) -> NamedPlaces:
    """Return the places of the settings, and of the policies of namespaces and topics."""
    usual = members_in(settings)
    namespaces, after = dict[str, dict[str, object]](), ""
    found = NamedPlaces({offload_rules(usual, usual).place}, [])
    while page := await metadata.read_under(POLICIES, after):
        for key, entry in page:
            if isinstance(entry, Corrupt):
                found.unreadable.append(entry)
                continue
            try:
                stored = json.loads(entry.value)
            except ValueError as error:
                why = f"the policies cannot be read: {error}"
                found.unreadable.append(Corrupt(key, 0, why))
                continue
            if (explicit := StoredPolicies(key, stored, entry.version).get(OFFLOAD)) is None:
                continue
            members = merged(namespaces.get(_namespace_of(key), usual), explicit)
            if namespace_of_policies(key) is not None:
                namespaces[_namespace_of(key)] = members
            found.places.add(offload_rules(members, usual).place)
        after = page[-1][0]
    found.places.discard("")
    return found


def _namespace_of(key: str) -> str:
    """Return the namespace of a key of policies, which may be a topic's."""
    return "/".join(key.removeprefix(POLICIES).split("/")[:2])
