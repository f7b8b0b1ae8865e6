"""The interface of the directory of names, in this process or another, for serving topics."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from magnetar_broker.authorization.rules import AccessRequest
from magnetar_broker.names.lookup_limit import LookupLimit
from magnetar_broker.names.topic_lists import Watcher
from magnetar_broker.names.topic_pattern import TopicPattern
from magnetar_broker.placement.ownership import Owner
from magnetar_broker.schemas.registry import Registered
from magnetar_broker.schemas.types import Schema
from magnetar_proto.names import TopicName


class Listing(NamedTuple):
    """Topics of a namespace as they are now."""

    names: list[str]
    """Sorted full names; not to be changed."""
    hash: str
    """The hash of the list, which clients compare with the hash of theirs."""


class WatchedTopics(Protocol):
    """A list of topics that follows their creation and deletion."""

    @property
    def names(self) -> list[str]:
        """Sorted full names, when the watcher is added; not to be changed."""

    @property
    def hash(self) -> str:
        """The hash of the list that the watcher has, which clients compare with their own."""

    def add(self, watcher: Watcher) -> None:
        """Notify the watcher of every change from now on; a list has only one watcher."""

    def remove(self, watcher: Watcher) -> None:
        """Stop notifying the watcher; safe if it was not added."""


class Names(Protocol):
    """The directory of names as a process that serves topics uses it.

    Arguments and results are values that another process could be sent.  Every method raises the
    `BrokerError` that a client is answered with, and `StorageError` if metadata cannot be read or
    written.
    """

    async def start(self) -> None:
        """Start; call it once.  On return names can be used and topics are loaded on demand."""

    async def stop(self) -> None:
        """Close all topics; topics that are being loaded are closed before this returns."""

    def lookup(self) -> LookupLimit:
        """Return a context that counts a lookup; it raises `TooManyRequests` at the limit."""

    async def authorize(self, roles: Sequence[str], accesses: Sequence[AccessRequest]) -> None:
        """Check that each role has every permission asked for; raise `NotAuthorized` if not."""

    # Topics -----------------------------------------------------------------------------

    async def open(self, name: TopicName, create: bool) -> None:
        """Load a topic here, and create it if `create` is set and policies allow it."""

    async def locate(self, name: TopicName, authoritative: bool) -> Owner:
        """Return the owner of a topic, which need not exist; its namespace must, or is created."""

    async def partitions(self, name: TopicName, create: bool) -> int:
        """Return the number of partitions; 0 for a topic without.  See `Creation.partitions`."""

    async def delete_inactive(self, name: TopicName) -> None:
        """Delete a loaded topic if it is inactive even after it was locked."""

    # Lists ------------------------------------------------------------------------------

    async def topics(
        self, namespace: str, pattern: TopicPattern | None, persistent: bool, non_persistent: bool
    ) -> Listing:
        """Return the stored topics of a namespace, the loaded non-persistent ones, or both."""

    async def watch(self, namespace: str, pattern: TopicPattern) -> WatchedTopics:
        """Return the stored topics of a namespace that match the pattern.

        The caller adds or removes a watcher before it next waits, so that no change is missed.
        """

    # Schemas ----------------------------------------------------------------------------

    async def schema(self, name: TopicName, number: int | None) -> Registered | None:
        """Return a version of a topic's schema, or the latest one; None if it does not exist."""

    async def producer_schema(self, name: TopicName, schema: Schema | None) -> bytes:
        """Return the version that a producer of a loaded topic publishes; see `Schemas`."""

    async def check_consumer_schema(self, name: TopicName, schema: Schema, idle: bool) -> None:
        """Make sure that a consumer can read a loaded topic.  See `Schemas.for_consumer`."""
