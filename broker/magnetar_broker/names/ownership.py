"""Which broker serves a topic, and at which addresses (advertised listeners).

Topics of a namespace fall into *bundles* (`bundles.py`), and a bundle is owned by one broker at
a time.  Everything that opens or looks up a topic asks an `Ownership` first; here one broker owns
all.  Several machines are another implementation of the same class: they keep owners in the
metadata store under leases.

A broker of several processes divides its topics among them by a hash of their names: whatever it
owns, each process serves a fixed part of that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit
from zlib import crc32

from magnetar_broker.base.errors import ListenerMissing
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_proto.names import TopicName


@dataclass(frozen=True)
class Owner:
    """A broker, the addresses it advertises, and whether it is this one."""

    default: ListenerUrls
    """For clients that name no listener."""
    is_self: bool
    listeners: Mapping[str, ListenerUrls] = field(default_factory=dict)
    process: str = ""
    """The URL that stands for the one of its processes that serves the topic; blank if it has only
    one.  Clients connect to the broker's address and name this one (`proxy_to_broker_url`)."""

    @property
    def service_url(self) -> str:
        """Where clients of its own network connect."""
        return self.default.pulsar

    def urls_of(self, listener: str) -> ListenerUrls:
        """Its addresses for a listener name, the default if blank; `ListenerMissing` if unknown."""
        if not listener.strip():
            return self.default
        try:
            return self.listeners[listener]
        except KeyError as error:
            known = ", ".join(self.listeners) or "none"
            raise ListenerMissing(
                f"this broker advertises no listener {listener!r}: use one of its listeners "
                f"({known}), or add it to advertisedListeners"
            ) from error


class Ownership(Protocol):
    """Finds and acquires owners."""

    @property
    def service_url(self) -> str:
        """Where clients of this broker connect."""

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        """The topic's owner; acquires its bundle if it has none.

        `authoritative`: another broker sent the client here, so acquire or fail.
        """

    async def owns(self, topic: TopicName) -> bool:
        """Whether this broker may open the topic."""


class SoleOwner:
    """One broker that owns every bundle."""

    def __init__(self, service_url: str) -> None:
        self.announce(ListenerUrls(service_url))

    def announce(
        self, default: ListenerUrls, listeners: Mapping[str, ListenerUrls] | None = None
    ) -> None:
        """Answer lookups with these addresses from now on."""
        self._self = Owner(default, True, listeners or {})

    @property
    def service_url(self) -> str:
        """What was announced."""
        return self._self.service_url

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        """This broker."""
        return self._self

    async def owns(self, topic: TopicName) -> bool:
        """Always."""
        return True


class Divided:
    """One broker that owns every bundle, and divides its topics among its worker processes."""

    def __init__(self, processes: Sequence[str]) -> None:
        """`processes` are the URLs that stand for the workers, by their numbers."""
        self._processes = processes
        self.announce(ListenerUrls())

    def announce(
        self, default: ListenerUrls, listeners: Mapping[str, ListenerUrls] | None = None
    ) -> None:
        """Answer lookups with these addresses of the broker from now on."""
        self._default = default
        self._owners = [
            Owner(default, True, listeners or {}, process) for process in self._processes
        ]

    @property
    def workers(self) -> int:
        """The number of processes that serve topics."""
        return len(self._processes)

    def address_of(self, worker: int) -> str:
        """Host and port of the URL that stands for a worker."""
        return urlsplit(self._processes[worker]).netloc

    def worker_of(self, topic: TopicName) -> int:
        """The number of the worker that serves a topic.

        The partitions of a topic are served by one worker after the other, so they are divided
        evenly.  The number depends on nothing but the name and the number of workers.
        """
        first = crc32(str(topic.base).encode())
        return (first + max(topic.partition, 0)) % self.workers

    @property
    def service_url(self) -> str:
        """What was announced."""
        return self._default.pulsar

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        """This broker, with the process that serves the topic."""
        return self._owners[self.worker_of(topic)]

    async def owns(self, topic: TopicName) -> bool:
        """Always."""
        return True
