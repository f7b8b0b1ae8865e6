"""The interface of loaded topics, in any process, for the directory of names."""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from magnetar_broker.authorization.rules import Grants
from magnetar_broker.policies.policy import Subject
from magnetar_proto.names import TopicName


class Condition(Enum):
    """The condition for evicting a loaded topic."""

    ANYWAY = "anyway"
    UNUSED = "unused"
    """The topic is evicted only if no client is connected to it."""
    INACTIVE = "inactive"
    """The topic is evicted only if it has been idle for long enough (`inactiveTopicPolicies`)."""


class TopicHost(Protocol):
    """The loaded topics.  Arguments and results are values that another process could be sent.

    A caller that loads, evicts, unloads or erases a topic, or subscribes to it, holds the topic's
    lock (`TopicLocks`).
    """

    def is_loaded(self, name: TopicName) -> bool:
        """Return whether a topic is loaded now."""

    def is_in_place(self, name: TopicName) -> bool:
        """Return whether a topic is loaded by the present owner of its bundle."""

    def loaded(self, namespace: str) -> list[TopicName]:
        """Return the topics of a namespace that are loaded now."""

    async def load(self, name: TopicName, create: bool) -> bool:
        """Load a topic in the process that owns its bundle; return False if it does not exist.

        The policies of the topic are in memory.  With `create` it is created if it does not exist.
        A former owner that still serves it closes it first.
        """

    async def evict(self, names: list[TopicName], condition: Condition) -> bool:
        """Disconnect the clients of loaded topics, and evict these topics.

        The caller erases or unloads each of them.  Return False, and do nothing, if one does not
        meet the condition.
        """

    async def unload(self, name: TopicName) -> None:
        """Close a topic if it is loaded or was evicted; its clients reconnect by themselves."""

    async def erase(self, name: TopicName) -> None:
        """Delete everything stored for a topic, loaded or not; durable on return.

        It is not an error if the topic has stored nothing.
        """

    async def apply(self, subject: Subject, partitions: int) -> None:
        """Apply the current policies to the loaded topics of a namespace or partitioned topic.

        Raises `StorageError` if a topic cannot apply them; all others have applied them.
        """

    async def reauthorize(self, namespace: str, grants: Grants) -> None:
        """Close what clients have open in a namespace and these grants do not permit.

        Nothing of that kind is open on return, nor can be opened.
        """

    async def configure(self, changed: Mapping[str, str]) -> None:
        """Apply the settings that were changed while the broker runs; `changed` has all, by key.

        On return all loaded topics follow them, and so do topics that are loaded later.  Raises
        `StorageError` if a topic cannot: all others do.
        """

    async def subscriptions_of(self, name: TopicName) -> list[str]:
        """Return the durable subscriptions of a topic, whether or not it is loaded."""

    async def subscribe_unlisted(self, name: TopicName, subscriptions: list[str]) -> None:
        """Create subscriptions from the beginning of a partition that clients cannot use yet."""
