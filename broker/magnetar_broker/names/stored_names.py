"""The names of a namespace's stored topics, as listings show them."""

from collections.abc import AsyncIterator
from urllib.parse import unquote_plus

from magnetar_broker.base.metadata_keys import topics_of
from magnetar_broker.names.catalogue import Catalogue
from magnetar_proto.names import PARTITION_SUFFIX, SYSTEM_NAMESPACE, TopicName
from magnetar_storage.interfaces import PAGE, MetadataStore


class StoredNames:
    """Reads the names of stored topics."""

    def __init__(self, metadata: MetadataStore, catalogue: Catalogue) -> None:
        self._metadata = metadata
        self._catalogue = catalogue

    async def of(self, namespace: str) -> AsyncIterator[list[str]]:
        """Yield full names in pieces, in no order; partitions one by one, no system topics."""
        parted = set(await self._catalogue.partitioned_topics(namespace, "persistent"))
        for topic in sorted(parted):
            count = await self._catalogue.partitions(topic)
            if not topic.is_system:
                yield [str(topic.with_partition(index)) for index in range(count)]
        prefix, after = topics_of(namespace, "persistent"), ""
        while page := await self._metadata.list(prefix, after, PAGE):
            names = (f"persistent://{namespace}/{unquote_plus(key[len(prefix) :])}" for key in page)
            yield [name for name in names if self._is_shown(namespace, name, parted)]
            after = page[-1]

    def _is_shown(self, namespace: str, name: str, parted: set[TopicName]) -> bool:
        """Return whether a name is listed; parses only possible partitions and system topics."""
        if PARTITION_SUFFIX in name or "__" in name or namespace == SYSTEM_NAMESPACE:
            topic = TopicName.parse(name)
            return not topic.is_system and (topic.partition < 0 or topic.base not in parted)
        return True
