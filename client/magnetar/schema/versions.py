"""The schemas of the writers of messages: each is requested once, and kept."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any, Generic

from magnetar.base.errors import MagnetarError
from magnetar.base.schema_info import SchemaInfo
from magnetar.base.values import V
from magnetar.messages import Message
from magnetar.schema.base import Schema
from magnetar_proto.names import TopicName

MAX_BYTES = 16 * 1024 * 1024
"""The limit of the total size of the definitions that a client keeps, in bytes."""
MAX_READERS = 1000
"""The number of versions whose decoders a consumer keeps."""

Version = tuple[str, bytes]
"""A topic, without partition number, and a version of its schema."""


class SchemaVersions:
    """The schemas of topics by version, shared by all consumers of a client."""

    def __init__(self, ask: Callable[[str, bytes], Awaitable[SchemaInfo]]) -> None:
        self._ask = ask
        self._known: OrderedDict[Version, SchemaInfo] = OrderedDict()
        self._bytes = 0

    async def get(self, version: Version) -> SchemaInfo:
        """Return the schema; raise the error of the broker, or OperationTimeout."""
        if version not in self._known:
            info = await self._ask(*version)
            if version not in self._known:
                self._known[version] = info
                self._bytes += len(info.definition)
            while self._bytes > MAX_BYTES and len(self._known) > 1:
                self._bytes -= len(self._known.popitem(last=False)[1].definition)
            return info
        self._known.move_to_end(version)
        return self._known[version]


class WriterSchemas(Generic[V]):
    """Provides the decoders of one consumer's messages, by the schemas of their writers.

    `prepare` is the callback for `Inbox.prepare`.
    """

    def __init__(self, schema: Schema[V], versions: SchemaVersions) -> None:
        self._schema = schema
        self._versions = versions
        self._readers: OrderedDict[Version, Schema[V] | Exception] = OrderedDict()

    @property
    def are_needed(self) -> bool:
        """Whether messages cannot be decoded without `prepare`."""
        return self._schema.needs_writer

    def prepare(self, messages: Iterable[Message[Any]]) -> Awaitable[None] | None:
        """Set the decoder of each entry; None, or an awaitable to await before the next attempt."""
        missing = set()
        for message in messages:
            entry = message.entry
            if entry.reader is not None:
                continue
            if not entry.metadata.schema_version:
                entry.reader = self._schema  # written without one
                continue
            version = version_of(message)
            entry.reader = self._readers.get(version)
            if entry.reader is None:
                missing.add(version)
        return self._fetch(missing) if missing else None

    async def _fetch(self, missing: set[Version]) -> None:
        for version in missing:
            try:
                reader: Schema[V] | Exception
                # promise[without .reading(await self._versions.get(version))]: messages are decoded
                #   with the schema of their version
                reader = self._schema.reading(await self._versions.get(version))
            except MagnetarError as error:
                if error.retriable:  # promise: a schema is asked for again after a transient error
                    raise  # to the receiving application, which may try again
                reader = error
            except Exception as error:  # an invalid definition may raise anything
                reader = ValueError(f"the schema of its writer is not readable: {error}")
            self._readers[version] = reader
            if len(self._readers) > MAX_READERS:
                self._readers.popitem(last=False)

    async def info_of(self, message: Message[Any]) -> SchemaInfo | None:
        """Return the schema that a message was written with; None if it has none."""
        if not message.schema_version:
            return None
        return await self._versions.get(version_of(message))


def version_of(message: Message[Any]) -> Version:
    """Return the topic and the version of a message's schema."""
    return _base(message.topic), message.schema_version


@lru_cache(maxsize=1024)
def _base(topic: str) -> str:
    return str(TopicName.parse(topic).base)
