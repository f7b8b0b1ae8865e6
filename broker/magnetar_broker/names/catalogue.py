"""The topics that exist, by name, whether or not they are loaded.

A topic exists when its log's record is stored.  A partitioned topic is a record of its own, with
the number of its partitions; those exist with it, though a partition has a log only from its first
use on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote_plus

from magnetar_broker.base.errors import AlreadyExists, TopicNotFound
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import (
    PARTITIONS,
    partitions_key,
    topic_key,
    topic_of_names,
    topics_of,
)
from magnetar_broker.base.records import (
    Fields,
    change_record,
    create_record,
    has_record,
    keys_under,
    read_record,
)
from magnetar_proto.names import PARTITION_SUFFIX, TopicName
from magnetar_storage.errors import StorageError


@dataclass(frozen=True)
class Partitioned:
    """The stored record of a partitioned topic."""

    partitions: int
    properties: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0
    """The creation time, in ms since 1970; 0 if an earlier release created the topic."""

    def fields(self) -> Fields:
        """Return the stored fields; properties and the time only if they are set."""
        fields: Fields = {"partitions": self.partitions}
        if self.properties:
            fields["properties"] = self.properties
        return fields | ({"created_ms": self.created_ms} if self.created_ms else {})


class Catalogue:
    """Reads and writes the names.  Partitioned topics are kept in memory from the first read on."""

    def __init__(self, metadata: GuardedMetadata) -> None:
        self._metadata = metadata
        self._partitioned: dict[TopicName, Partitioned | None] | None = None
        """The partitioned topics; None has to be read, because it was or may have been stored."""

    # Partitioned topics -----------------------------------------------------------------

    async def partitioned(self, topic: TopicName) -> Partitioned | None:
        """Return the partitioned topic of this name or of this partition; None if it is neither."""
        known = await self._known()
        base = topic.base
        if base in known and known[base] is None:
            fields = await read_record(self._metadata, partitions_key(base))
            if base in known and known[base] is None:  # else a concurrent request has read it
                if fields is None:
                    del known[base]
                else:
                    known[base] = _of(fields)
        return known.get(base)

    async def partitions(self, topic: TopicName) -> int:
        """Return the number of partitions of a topic; 0 if it is not partitioned."""
        found = await self.partitioned(topic)
        return 0 if found is None else found.partitions

    async def create_partitioned(self, topic: TopicName, new: Partitioned) -> None:
        """Create a partitioned topic; durable on return.

        The caller holds the lock of the topic with its partitions (`TopicLocks.family_held`).
        """
        known = await self._known()
        if await self.exists(topic):
            raise AlreadyExists(f"{topic} already exists and is not partitioned")
        try:
            created = await create_record(self._metadata, partitions_key(topic), new.fields())
        except StorageError:
            known[topic] = None  # it may be stored all the same
            raise
        if not created:
            raise AlreadyExists(f"{topic} already exists as a partitioned topic")
        known[topic] = new

    async def change_partitioned(
        self, topic: TopicName, change: Callable[[Partitioned], Partitioned]
    ) -> None:
        """Replace the record of a partitioned topic with what `change` returns; durable on return.

        `TopicNotFound` if there is no such partitioned topic.
        """
        known = await self._known()
        changed: list[Partitioned] = []

        def changing(fields: Fields) -> Fields:
            changed.append(change(_of(fields)))
            kept = {name: value for name, value in fields.items() if name != "properties"}
            return kept | changed[-1].fields()

        try:
            exists = await change_record(self._metadata, partitions_key(topic), changing)
        except StorageError:
            known[topic] = None  # it may be stored all the same
            raise
        if not exists:
            raise TopicNotFound(f"{topic} is not a partitioned topic")
        known[topic] = changed[-1]

    async def grow(self, topic: TopicName, partitions: int) -> None:
        """Set a higher number of partitions; durable on return."""
        await self.change_partitioned(topic, lambda old: replace(old, partitions=partitions))

    async def delete_partitioned(self, topic: TopicName) -> None:
        """Remove the record that makes a topic partitioned; durable on return."""
        known = await self._known()
        await self._metadata.delete(partitions_key(topic))
        known.pop(topic, None)

    def forget(self) -> None:
        """Read the partitioned topics again, before the next use: the store has others by now."""
        self._partitioned = None

    async def _known(self) -> dict[TopicName, Partitioned | None]:
        if self._partitioned is None:
            keys = await keys_under(self._metadata, PARTITIONS)
            names = map(topic_of_names, keys)
            known: dict[TopicName, Partitioned | None] = dict.fromkeys(names)
            if self._partitioned is None:  # else a concurrent request has read them
                self._partitioned = known
        return self._partitioned

    # Topics -----------------------------------------------------------------------------

    async def exists(self, topic: TopicName) -> bool:
        """Return whether a persistent topic of exactly this name has a log."""
        return await has_record(self._metadata, topic_key(topic))

    async def topics(self, namespace: str) -> list[TopicName]:
        """Return the persistent topics of a namespace; of partitioned topics, every partition."""
        names: set[TopicName] = set()
        parted: dict[TopicName, int] = {}
        for topic in await self.partitioned_topics(namespace, "persistent"):
            parted[topic] = await self.partitions(topic)
            names.update(topic.with_partition(p) for p in range(parted[topic]))
        for topic in await self.logs(namespace):
            if topic.partition < 0 or topic.base not in parted:
                names.add(topic)
        return sorted(names)

    async def partitioned_topics(self, namespace: str, domain: str) -> list[TopicName]:
        """Return the partitioned topics of a namespace, in order."""
        return sorted(
            topic
            for topic in await self._known()
            if topic.namespace_name == namespace and topic.domain == domain
        )

    async def logs(self, namespace: str) -> list[TopicName]:
        """Return the names of a namespace's logs: topics, and partitions that were used."""
        keys = await keys_under(self._metadata, topics_of(namespace, "persistent"))
        return [_topic(namespace, unquote_plus(key)) for key in keys]

    async def family(self, topic: TopicName) -> list[TopicName]:
        """Return the names of the logs of a topic and its partitions, deleted ones included."""
        prefix = topic_key(topic)
        keys = await keys_under(self._metadata, prefix + PARTITION_SUFFIX)
        locals_ = [topic.local + unquote_plus(PARTITION_SUFFIX + key) for key in keys]
        names = [_topic(topic.namespace_name, local) for local in locals_]
        members = [name for name in names if name.base == topic and name != topic]
        return members + ([topic] if await self.exists(topic) else [])


def _topic(namespace: str, local: str) -> TopicName:
    return TopicName.parse(f"persistent://{namespace}/{local}")


def _of(fields: dict[str, Any]) -> Partitioned:
    created_ms = int(fields.get("created_ms", 0))
    return Partitioned(int(fields["partitions"]), fields.get("properties", {}), created_ms)
