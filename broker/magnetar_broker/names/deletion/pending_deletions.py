"""Deletions that have begun and have not ended, as marks in the metadata store."""

from urllib.parse import unquote_plus

from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import DELETIONS, deletion_key
from magnetar_broker.base.records import keys_under
from magnetar_broker.names.topic_events import TopicEvents
from magnetar_proto.names import TopicName


class PendingDeletions:
    """Deletions that have begun, by the full name of a topic, namespace or tenant.

    The mark is stored before anything is deleted, and removed last.  So a deletion that a crash or
    a failing disk interrupts is continued, and is never left half done.
    """

    def __init__(self, metadata: GuardedMetadata, events: TopicEvents) -> None:
        self._metadata = metadata
        self._events = events
        self._begun: set[str] = set()
        """Names whose mark is stored, or may be: the write may have failed half-way."""
        self._announced: dict[str, list[TopicName]] = {}
        """The topics that listings show until `announce`, kept over repeated attempts."""

    def __contains__(self, name: object) -> bool:
        return name in self._begun

    def names(self) -> list[str]:
        """Return the names of all pending deletions, in order."""
        return sorted(self._begun)

    async def reload(self) -> None:
        """Replace the names by those whose marks are stored."""
        keys = await keys_under(self._metadata, DELETIONS)
        self._begun = {unquote_plus(key) for key in keys}
        for name in self._announced.keys() - self._begun:
            del self._announced[name]

    def of_topic(self, topic: TopicName) -> list[str]:
        """Return those of the topic and its parent that are being deleted."""
        if not self._begun:
            return []
        return [name for name in (str(topic), str(topic.base)) if name in self._begun]

    def check(self, topic: TopicName) -> None:
        """Raise `NotReady` while a topic, or the topic of this partition, is being deleted."""
        if self.of_topic(topic):
            raise NotReady(f"{topic} is being deleted; try again")

    async def begin(self, name: str) -> None:
        """Store the mark; durable on return."""
        self._begun.add(name)
        await self._metadata.put(deletion_key(name), b"{}")

    async def is_begun(self, name: str) -> bool:
        """Ask the store for the mark: after a failed write only the store knows."""
        if name in self._begun and await self._metadata.get(deletion_key(name)) is None:
            self._ended(name)
        return name in self._begun

    async def end(self, name: str) -> None:
        """Remove the mark of a deletion after everything else is deleted."""
        await self._metadata.delete(deletion_key(name))
        self._ended(name)

    def _ended(self, name: str) -> None:
        self._begun.discard(name)
        self._announced.pop(name, None)

    def listed(self, name: str) -> list[TopicName] | None:
        """Return the topics that an earlier attempt has found; None in the first one."""
        return self._announced.get(name)

    def remember(self, name: str, topics: list[TopicName]) -> None:
        """Keep the topics for `announce`: a repeated attempt does not find them any more."""
        self._announced.setdefault(name, topics)

    def announce(self, name: str) -> None:
        """Notify watchers that the topics do not exist any more."""
        for topic in self._announced.get(name, ()):
            if topic.is_persistent:
                self._events.notify(topic, False)
