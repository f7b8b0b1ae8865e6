"""The broker's settings: every one declared once, with its key, bounds and meaning.

They are declared in `sections`.  `magnetar_broker.config.load` reads them from a file, the
environment and the command line; `docs/configuration.md` is generated from the declarations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_address

from magnetar_broker.config.sections.authentication import (
    Authentication,
    OpenID,
    Passwords,
    Tokens,
)
from magnetar_broker.config.sections.authorization import Authorization
from magnetar_broker.config.sections.balancing import LoadBalancing
from magnetar_broker.config.sections.client_limits import ClientLimits
from magnetar_broker.config.sections.delivery import DelayedDelivery, Subscriptions
from magnetar_broker.config.sections.network import Audit, Network, Processes
from magnetar_broker.config.sections.policies import (
    Compaction,
    Expiry,
    Quotas,
    Rates,
    Schemas,
)
from magnetar_broker.config.sections.publishing import BrokerMetadata, Deduplication, Publishing
from magnetar_broker.config.sections.remote_data import RemoteData
from magnetar_broker.config.sections.section import TITLES
from magnetar_broker.config.sections.statistics import Statistics
from magnetar_broker.config.sections.storage import Storage
from magnetar_broker.config.sections.tiered_storage import TieredStorage
from magnetar_broker.config.sections.topic_lists import TopicLists
from magnetar_broker.config.sections.topics import Topics
from magnetar_broker.config.sections.transactions import Transactions
from magnetar_broker.config.sections.transport_security import TransportSecurity
from magnetar_broker.config.values import Key


@dataclass(frozen=True, kw_only=True, repr=False)
class Settings(
    Processes,
    LoadBalancing,
    Network,
    ClientLimits,
    TransportSecurity,
    Authentication,
    Tokens,
    Passwords,
    OpenID,
    Authorization,
    Audit,
    Storage,
    TieredStorage,
    RemoteData,
    Publishing,
    BrokerMetadata,
    Deduplication,
    DelayedDelivery,
    Topics,
    TopicLists,
    Transactions,
    Subscriptions,
    Expiry,
    Quotas,
    Rates,
    Schemas,
    Compaction,
    Statistics,
):
    """All settings of a broker; the defaults are those of `conf/broker.conf`.

    It has no representation as text: some values are secret.
    """

    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The places where values were set, by field; other fields have their default."""

    @property
    def binds_to_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ip_address(self.bind_address).is_loopback
        except ValueError:
            return self.bind_address.lower() == "localhost"


def _keys(section: type) -> dict[str, Key]:
    return {field.name: _named(field.name, field.metadata["key"]) for field in fields(section)}


def _named(field: str, key: Key) -> Key:
    """Return the key with its name, which is by default that of the field in camel case."""
    first, *others = field.split("_")
    return key if key.name else replace(key, name=first + "".join(map(str.capitalize, others)))


SECTIONS: dict[str, dict[str, Key]] = {
    TITLES[section]: _keys(section) for section in Settings.__bases__
}
"""Every field of `Settings` with its key, by section, in the order of the files in `conf`."""

KEYS: dict[str, Key] = {
    field: key for section in SECTIONS.values() for field, key in section.items()
}
"""Every field of `Settings` with its key, without the sections."""
