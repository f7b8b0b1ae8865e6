"""Ownership of topics: the process that serves a topic, and its addresses (advertised listeners).

Topics of a namespace fall into *bundles* (`bundles.py`), and a bundle is owned by one process at a
time.  Everything that opens or looks up a topic asks an `Ownership` first.  `SoleOwner` is the
`Ownership` of a single process; `assignments.py` is the `Ownership` of several, which also keeps
the owners in the metadata store if the processes are on several machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from magnetar_broker.base.client_texts import NO_LISTENER
from magnetar_broker.base.errors import ListenerNotFound
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.placement.bundles import Bundles
from magnetar_proto.names import TopicName

SOLE = "worker-0"
"""The name of the only process of a broker."""


@dataclass(frozen=True)
class Owner:
    """A broker with its advertised addresses, and whether it is this broker."""

    default: ListenerUrls
    """The addresses for clients that name no listener."""
    is_self: bool
    listeners: Mapping[str, ListenerUrls] = field(default_factory=dict)
    process_url: str = ""
    """The URL that identifies the process that serves the topic; blank if there is one process.
    Clients connect to the broker's address and name this URL (`proxy_to_broker_url`).
    """

    @property
    def service_url(self) -> str:
        """The URL at which clients of the owner's own network connect."""
        return self.default.pulsar or self.default.pulsar_tls

    def urls_of(self, listener: str) -> ListenerUrls:
        """Return the URLs of a listener, the default if blank; `ListenerNotFound` if unknown."""
        if not listener.strip():
            return self.default
        try:
            return self.listeners[listener]
        except KeyError as error:
            known = ", ".join(self.listeners) or "none"
            raise ListenerNotFound(
                f"{NO_LISTENER.format(listener)}: use one of its listeners ({known}), or add it to "
                "advertisedListeners"
            ) from error


class Ownership(Protocol):
    """Finds and acquires the owners of topics."""

    @property
    def service_url(self) -> str:
        """The URL at which clients of this broker connect."""

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        """Return the topic's owner; acquires its bundle if it has none.

        `authoritative`: another broker sent the client here, so acquire or fail.
        """

    async def owns(self, topic: TopicName) -> bool:
        """Return whether this broker may open the topic."""

    @property
    def processes(self) -> Sequence[str]:
        """The names of the processes that own bundles."""

    @property
    def namespaces(self) -> list[str]:
        """The namespaces whose bundles have owners: all that were used since the start."""

    async def owners_of(self, namespace: str, bundles: Bundles) -> Sequence[str]:
        """Return the process of each bundle of a namespace; acquires those that have none."""

    async def give(self, namespace: str, bundle: str, process: str) -> None:
        """Make one of `processes` the owner of a bundle; on return no other opens its topics.

        Topics that are loaded elsewhere stay so until the caller unloads them.  Raises
        `BundleRefused` if the namespace has no such bundle, ValueError if the broker has no such
        process, and `NamespaceNotFound` if the namespace does not exist.
        """

    async def adopt(self, namespace: str, bundles: Bundles) -> None:
        """Make the owner of a bundle that was split the owner of its parts."""

    async def forget(self, namespace: str) -> None:
        """Remove the owners of a namespace that was deleted, or is created with other bundles."""

    async def reload(self) -> None:
        """Replace the owners in memory by those in the metadata store, if they are stored."""


class SoleOwner:
    """The ownership of a process that owns every bundle."""

    def __init__(self, service_url: str) -> None:
        self._used: set[str] = set()
        self.announce(ListenerUrls(service_url))

    def announce(
        self, default: ListenerUrls, listeners: Mapping[str, ListenerUrls] | None = None
    ) -> None:
        """Set the addresses with which lookups are answered from now on."""
        self._self = Owner(default, True, listeners or {})

    @property
    def service_url(self) -> str:
        """The announced service URL."""
        return self._self.service_url

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        """Return this broker, which owns every topic."""
        self._used.add(topic.namespace_name)
        return self._self

    async def owns(self, topic: TopicName) -> bool:
        """Return True: this process owns every bundle."""
        self._used.add(topic.namespace_name)
        return True

    @property
    def processes(self) -> Sequence[str]:
        """The name of this process, which is the only one."""
        return [SOLE]

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of which topics were opened or looked up, or owners were asked for."""
        return list(self._used)

    async def owners_of(self, namespace: str, bundles: Bundles) -> Sequence[str]:
        """Return this process as the owner of every bundle."""
        self._used.add(namespace)
        return [SOLE] * len(bundles)

    async def give(self, namespace: str, bundle: str, process: str) -> None:
        """Check the name of the process: it is the only one, and owns the bundle already."""
        if process != SOLE:
            raise ValueError(f"{process} is not {SOLE}, the only process of this broker")

    async def adopt(self, namespace: str, bundles: Bundles) -> None:
        """Do nothing, as nothing depends on the bundles."""

    async def forget(self, namespace: str) -> None:
        """Remove a namespace from the list of used ones."""
        # promise: the bundles of a deleted namespace are not listed as owned
        self._used.discard(namespace)

    async def reload(self) -> None:
        """Do nothing: the only owner needs not be stored."""
