"""Which broker serves a topic.

Topics of a namespace fall into *bundles* (`bundles.py`), and a bundle is owned by one broker at
a time.  Everything that opens or looks up a topic asks an `Ownership`
first; here one process owns all.  Several processes, or machines, are another
implementation of the same class: they keep owners in the metadata store under leases.
"""

from dataclasses import dataclass
from typing import Protocol

from magnetar_proto.names import TopicName


@dataclass(frozen=True)
class Owner:
    """A broker, and whether it is this one."""

    service_url: str
    is_self: bool


class Ownership(Protocol):
    """Finds and acquires owners."""

    @property
    def service_url(self) -> str:
        """Where clients of this broker connect."""

    async def locate(self, topic: TopicName, authoritative: bool) -> Owner:
        """Who serves the topic now; acquires its bundle when nobody does.

        `authoritative`: another broker sent the client here, so acquire or fail.
        """

    async def owns(self, topic: TopicName) -> bool:
        """Whether this broker may open the topic."""


class SoleOwner:
    """One broker that owns every bundle."""

    def __init__(self, service_url: str) -> None:
        self.announce(service_url)

    def announce(self, service_url: str) -> None:
        """Tell clients to come to this URL from now on."""
        self._self = Owner(service_url, True)

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
