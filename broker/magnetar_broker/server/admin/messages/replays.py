"""Publishing dead letters to the topic that they came from."""

import asyncio
from time import monotonic
from typing import Any

from magnetar_broker.base.errors import SchemaRefused
from magnetar_broker.server.admin.context import AdminContext, serving
from magnetar_broker.server.admin.messages.searches import SearchRequest, find, place_text
from magnetar_broker.server.admin.operations import replaying
from magnetar_broker.server.admin.operations.searching import Message
from magnetar_broker.server.admin.operations.shown_message import text_of
from magnetar_broker.server.http.messages import Refused
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import text_bytes
from magnetar_proto.errors import InvalidTopicName
from magnetar_proto.hashes import murmur3_32
from magnetar_proto.names import TopicName

OF_DEAD_LETTERS = frozenset(
    ("REAL_TOPIC", "ORIGIN_MESSAGE_ID", "REAL_SUBSCRIPTION", "RECONSUMETIMES", "DELAY_TIME",
     "ORIGIN_MESSAGE_IDY_TIME")
)  # fmt: skip
"""The properties that clients add to dead letters."""
LONGEST_SECONDS = 60
"""The seconds after which a request begins no other page."""
PAGE = 100
"""The number of messages that are published at a time."""


class Replay:
    """One request: reads a page of messages, publishes it to each topic, and so on."""

    def __init__(
        self,
        context: AdminContext,
        base: TopicName,
        source: TopicName,
        wanted: SearchRequest,
        rate: int,
        dry: bool,
    ) -> None:
        self._context, self._base, self._source = context, base, source
        self._wanted, self._rate, self._dry = wanted, rate, dry
        self._next: tuple[int, int, int] | None = wanted.start
        self._error: str | None = None
        self._versions: dict[bytes, bytes | None] = {}
        self._matched = self._replayed = self._skipped = self._scanned = self._targets = 0

    @property
    def failed(self) -> bool:
        """Whether a message was refused."""
        return self._error is not None

    def answer(self) -> dict[str, Any]:
        """Return the result, where to continue, and a `reason` if a message was refused."""
        found: dict[str, Any] = {
            "source": str(self._source),
            "matched": self._matched,
            "replayed": self._replayed,
            "skipped": self._skipped,
            "entriesScanned": self._scanned,
            "dryRun": self._dry,
            "next": None if self._next is None else place_text(self._next),
        }
        return found if self._error is None else {**found, "reason": self._error}

    async def run(self) -> None:
        """Publish until the limit, the topic's end, the first message refused, or the deadline."""
        deadline = monotonic() + LONGEST_SECONDS
        while (page := self._page()) is not None and monotonic() < deadline:
            async with self._context.reading:
                found = await find(self._context, self._source, page, None)
            scanned, unreadable, messages, following = found
            self._scanned += scanned
            self._skipped += unreadable
            self._matched += len(messages)
            await self._publish(messages)
            if self._error is not None:
                return
            self._next = following  # promise[following -> None]: a replay goes on where it ended
            if messages and not self._dry and self._page() is not None:
                await asyncio.sleep(len(messages) / self._rate)

    def _page(self) -> SearchRequest | None:
        """Return the next search; None if nothing is left to do."""
        found = min(self._wanted.most_found - self._matched, PAGE, self._rate)
        scanned = self._wanted.most_scanned - self._scanned
        if self._next is None or found <= 0 or scanned <= 0:
            return None
        return SearchRequest(self._next, found, scanned, self._wanted.filter)

    async def _publish(self, found: list[Message]) -> None:
        """Publish messages, for each topic in the order in which they were found."""
        by_topic: dict[TopicName, list[tuple[bytes, bytes]]] = {}
        for ledger, entry, index, head, payload, _, _ in found:
            metadata = pb.MessageMetadata.FromString(head)
            if metadata.HasField("uuid"):
                self._skipped += 1  # a chunk alone is not a message
                continue
            target = await self._target(metadata)
            again = await self._again(metadata, place_text((ledger, entry, index)))
            by_topic.setdefault(target, []).append((again.SerializeToString(), payload))
        if self._dry:  # promise: a dry run publishes nothing
            return
        for target, messages in by_topic.items():
            await self._store(target, messages)
            if self._error is not None:
                return

    async def _store(self, target: TopicName, messages: list[tuple[bytes, bytes]]) -> None:
        try:
            stored = await self._context.owners.ask(replaying.store, target, messages)
        except Refused as error:
            if not self._replayed:
                raise
            self._error = f"after {self._replayed} messages: {error}"
            return
        self._replayed += stored
        if stored < len(messages):
            self._error = (
                f"{target} refused a message after {self._replayed}: see its log; continue "
                "after those that are there, which have the property REPLAYED_FROM"
            )

    async def _target(self, metadata: pb.MessageMetadata) -> TopicName:
        """Return the partition that a message names as its origin; else that of its key."""
        partitions = await serving(self._context).catalogue.partitions(self._base)
        if not partitions:
            return self._base
        properties = {one.key: text_of(one.value) for one in metadata.properties}
        try:
            origin = TopicName.parse(properties.get("REAL_TOPIC", ""))
        except InvalidTopicName:
            origin = self._base
        # promise: a dead letter goes back to its own partition
        if origin.base == self._base and 0 <= origin.partition < partitions:
            return origin
        self._targets += 1
        key = str(self._targets).encode()
        if metadata.HasField("partition_key"):
            key = text_bytes(metadata, "partition_key")
        return self._base.with_partition(murmur3_32(key) % partitions)

    async def _again(self, metadata: pb.MessageMetadata, source: str) -> pb.MessageMetadata:
        """Return the metadata of the copy: the publisher's fields, and the original's place."""
        again = pb.MessageMetadata()
        again.CopyFrom(metadata)
        for field in ("replicated_from", "deliver_at_time", "txnid_least_bits", "txnid_most_bits",
                      "highest_sequence_id", "schema_version"):  # fmt: skip
            again.ClearField(field)
        del again.replicate_to[:], again.properties[:]
        again.properties.extend(
            one for one in metadata.properties if one.key not in OF_DEAD_LETTERS
        )
        again.properties.add(key="REPLAYED_FROM", value=f"{self._source}:{source}")
        if metadata.HasField("schema_version"):
            version = await self._version(metadata.schema_version)
            if version is not None:
                again.schema_version = version
        return again

    async def _version(self, version: bytes) -> bytes | None:
        """Return the topic's version of a schema of the dead letter topic; None if it has none."""
        if version not in self._versions:
            schemas = serving(self._context).schemas
            found = None
            if len(version) == 8:
                found = await schemas.get(self._source, int.from_bytes(version, "big"))
            try:
                number = found and await schemas.number_of(self._base, found.schema)
            except SchemaRefused:
                number = None
            self._versions[version] = None if number is None else number.to_bytes(8, "big")
        return self._versions[version]
