"""Namespaces and partitioned topics: what exists by name, whether or not it is loaded."""

import json
from contextlib import suppress
from urllib.parse import unquote_plus

from magnetar_broker.errors import BrokerError, NamespaceMissing
from magnetar_broker.metadata_keys import (
    namespace_key,
    partitions_key,
    persistent_partitioned,
    persistent_topics,
    topic_key,
)
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import BadVersion
from magnetar_storage.interfaces import ABSENT, MetadataStore

PAGE = 1000


class AlreadyExists(BrokerError):
    """Something of that name is there already."""


class Namespaces:
    """Reads and writes the names; `auto_create` makes a namespace on its first use."""

    def __init__(self, metadata: MetadataStore, auto_create: bool) -> None:
        self._metadata = metadata
        self._auto_create = auto_create
        self._known: set[str] = set()

    async def create(self, name: NamespaceName) -> None:
        """Make a namespace; one that exists already stays as it is."""
        with suppress(BadVersion):  # then it exists, and that is all that was wanted
            await self._metadata.put(namespace_key(str(name)), b"{}", ABSENT)
        self._known.add(str(name))

    async def require(self, name: str) -> None:
        """Make sure that a namespace exists, else `NamespaceMissing`."""
        if name in self._known or await self.has(name):
            self._known.add(name)
        elif self._auto_create:
            await self.create(NamespaceName.parse(name))
        else:
            raise NamespaceMissing(
                f"namespace {name} does not exist; create it, or list it in bootstrapNamespaces"
            )

    async def has(self, name: str) -> bool:
        """Whether a namespace is stored; always asks the store."""
        return await self._metadata.get(namespace_key(name)) is not None

    async def partitions(self, topic: TopicName) -> int:
        """How many partitions the topic was created with; 0 when it is not partitioned."""
        found = await self._metadata.get(partitions_key(topic.base))
        return 0 if found is None else int(json.loads(found.value)["partitions"])

    async def create_partitioned(self, topic: TopicName, partitions: int) -> None:
        """Make a partitioned topic; its partitions appear on first use.

        Nobody may be making a plain topic of that name: see `Broker.create_partitioned`.
        """
        await self.require(topic.namespace_name)
        if await self.exists(topic):
            raise AlreadyExists(f"{topic} exists already and is not partitioned")
        value = json.dumps({"partitions": partitions}).encode()
        try:
            await self._metadata.put(partitions_key(topic), value, ABSENT)
        except BadVersion as error:
            raise AlreadyExists(f"{topic} is a partitioned topic already") from error

    async def exists(self, topic: TopicName) -> bool:
        """Whether a persistent topic of exactly this name is stored."""
        return await self._metadata.get(topic_key(topic)) is not None

    async def topics(self, namespace: str) -> list[TopicName]:
        """Stored persistent topics of a namespace, partitions of partitioned ones included."""
        stored = await self._locals(persistent_topics(namespace))
        names = {TopicName.parse(f"persistent://{namespace}/{local}") for local in stored}
        for local in await self._locals(persistent_partitioned(namespace)):
            base = TopicName.parse(f"persistent://{namespace}/{local}")
            names.update(base.with_partition(p) for p in range(await self.partitions(base)))
        return sorted(names)

    async def _locals(self, prefix: str) -> list[str]:
        """The decoded local names under a prefix."""
        keys: list[str] = []
        while True:
            page = await self._metadata.list(prefix, keys[-1] if keys else "", PAGE)
            keys += page
            if len(page) < PAGE:
                return [unquote_plus(key[len(prefix) :]) for key in keys]
