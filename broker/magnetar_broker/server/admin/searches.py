"""Searching a topic, and the dead letters of a subscription: listing, searching, storing again.

All of it is bounded: a request reads a range, and answers where the next one continues.
"""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from magnetar_broker.base.errors import SchemaRefused
from magnetar_broker.names.directory import Directory
from magnetar_broker.server.admin.messages import subscription_name, topic_with_messages
from magnetar_broker.server.admin.operations import reading, replaying, searching
from magnetar_broker.server.admin.operations.searching import Filter, Found, Message
from magnetar_broker.server.admin.shown_message import time_text
from magnetar_broker.server.admin.site import TOPIC, Handler, Site, json_of, serving, topic_of
from magnetar_broker.server.http.contract import CONSUME, OWNER, TENANT_ADMIN, Body, Query
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request, Response, json_response
from magnetar_broker.server.http.table import Route
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.compression import decompress
from magnetar_proto.errors import BadCompression, InvalidTopicName
from magnetar_proto.hashes import murmur3_32
from magnetar_proto.names import TopicName

KINDS = {"DLQ": "-DLQ", "RETRY": "-RETRY"}
"""The endings of the topics that clients make for a subscription's failed messages."""
OF_DEAD_LETTERS = frozenset(
    ("REAL_TOPIC", "ORIGIN_MESSAGE_ID", "REAL_SUBSCRIPTION", "RECONSUMETIMES", "DELAY_TIME",
     "ORIGIN_MESSAGE_IDY_TIME")
)  # fmt: skip
"""Properties that clients add to them."""
MOST_FOUND, MOST_SCANNED = 1000, 100_000
LONGEST_SECONDS = 60
"""Of one replay, by its rate."""
PAGE = 100
"""Messages that are replayed at a time."""
PREVIEW = 1024
"""Bytes of a payload that are shown unless more are asked for."""

RANGE = (
    Query("from", "ledger:entry to begin at; the beginning of the topic if absent"),
    Query("limit", "most messages, 100 if absent", "integer"),
    Query("scan", "most entries that are read, 10000 if absent", "integer"),
    Query("key", "only messages with this key"),
    Query("property", "only messages with this property: a name, or name=value"),
    Query("payload", "most bytes of each payload, 1024 if absent", "integer"),
)
KIND = Query("kind", "which of the subscription's topics", choices=tuple(KINDS))


@dataclass(frozen=True)
class _Wanted:
    """What a request searches for, and how much at most."""

    start: tuple[int, int]
    most_found: int
    most_scanned: int
    filter: Filter


def _wanted(given: dict[str, Any]) -> _Wanted:
    """From the query, or the body."""
    key, text = given.get("key"), given.get("property")
    if not isinstance(key, str | None) or not isinstance(text, str | None):
        raise Refused(400, "key and property: expected texts")
    name, equals, value = (text or "").partition("=")
    return _Wanted(
        _place(given.get("from")),
        _number(given, "limit", 100, MOST_FOUND),
        _number(given, "scan", 10_000, MOST_SCANNED),
        (key, name or None, value if equals else None),
    )


def _place(text: Any) -> tuple[int, int]:
    if text is None:
        return -1, -1
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise Refused(400, f"from is {text!r}: expected ledger:entry, such as 3:0")
    return min(int(parts[0]), 1 << 62), min(int(parts[1]), 1 << 62)


def _number(given: dict[str, Any], name: str, default: int, most: int) -> int:
    value = given.get(name, default)
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise Refused(400, f"{name} is {value!r}: expected a whole number") from error
    if isinstance(value, bool) or not 1 <= number <= most:
        raise Refused(412, f"{name} is {value}: expected 1 to {most}")
    return number


# Searching ---------------------------------------------------------------------------------


async def search(site: Site, request: Request) -> Response:
    """The messages of a topic with a key or a property, from a position on."""
    topic = await topic_with_messages(site, request, "search")
    return await _shown(site, topic, request)


async def dead_letters(site: Site, request: Request) -> Response:
    """The messages in a dead letter or retry topic of a subscription, from a position on."""
    return await _shown(site, await _one_of(site, request, request.query.get("kind")), request)


async def _shown(site: Site, topic: TopicName, request: Request) -> Response:
    given = _given(request)
    wanted, bytes_shown = _wanted(given), _number(given, "payload", PREVIEW, 1 << 20)
    async with site.reading:
        scanned, unreadable, found, following = await _search(site, topic, wanted)
        messages = [_json(message, bytes_shown) for message in found]
    return json_response(
        {
            "topic": str(topic),
            "messages": messages,
            "entriesScanned": scanned,
            "entriesUnreadable": unreadable,
            "next": None if following is None else _text(following),
        }
    )


def _given(request: Request) -> dict[str, Any]:
    given = {
        "from": request.query.get("from"),
        "limit": request.query.get("limit"),
        "scan": request.query.get("scan"),
        "key": request.query.get("key"),
        "property": request.query.get("property"),
        "payload": request.query.get("payload"),
    }
    return {name: value for name, value in given.items() if value is not None}


async def _search(site: Site, topic: TopicName, wanted: _Wanted) -> Found:
    return await site.owners.ask(
        searching.search,
        topic,
        wanted.start,
        wanted.filter,
        wanted.most_scanned,
        wanted.most_found,
    )


def _text(place: tuple[int, int]) -> str:
    return f"{place[0]}:{place[1]}"


def _json(message: Message, bytes_shown: int) -> dict[str, Any]:
    ledger, entry, index, head, payload = message
    metadata = pb.MessageMetadata.FromString(head)
    shown: dict[str, Any] = {
        "id": f"{ledger}:{entry}" + (f":{index}" if index >= 0 else ""),
        "properties": {one.key: one.value for one in metadata.properties},
        "publishTime": time_text(metadata.publish_time),
        "producerName": metadata.producer_name,
        "sequenceId": metadata.sequence_id,
        "encrypted": bool(metadata.encryption_keys),
    }
    if metadata.HasField("partition_key"):
        shown["key"] = metadata.partition_key
    if metadata.HasField("event_time"):
        shown["eventTime"] = time_text(metadata.event_time)
    if not metadata.encryption_keys:
        limit = 32 << 20
        try:
            payload = decompress(metadata.compression, payload, metadata.uncompressed_size, limit)
        except BadCompression as error:
            shown["unreadable"] = str(error)
    shown |= {"size": len(payload), "payload": b64encode(payload[:bytes_shown]).decode()}
    return shown


# Dead letters ------------------------------------------------------------------------------


async def topics(site: Site, request: Request) -> Response:
    """The dead letter and retry topics of a subscription that exist, and what is in them."""
    base = await _base(site, request)
    subscription = subscription_name(request)
    answer = []
    for topic, kind in await _topics(serving(site), base, subscription):
        for part in await serving(site).parts(topic):
            found = await site.owners.ask(reading.backlogs, part)
            answer.append(
                {
                    "topic": str(part),
                    "kind": kind,
                    "messages": found["totalMessages"],
                    "bytes": found["storageSize"],
                    "subscriptions": found["cursorDetails"],
                }
            )
    return json_response(answer)


async def _base(site: Site, request: Request) -> TopicName:
    """The topic of the path without its partition, which exists."""
    name = topic_of(request)
    if not name.is_persistent:
        raise Refused(405, f"{name} is not persistent: it has no dead letters")
    directory = serving(site)
    if not await directory.catalogue.partitions(name) and not await directory.exists(name):
        raise Refused(404, f"topic {name} does not exist: check the name")
    return name.base


async def _topics(
    directory: Directory, base: TopicName, subscription: str
) -> list[tuple[TopicName, str]]:
    """Those that exist, with their kinds: some clients make one for each partition."""
    parts = await directory.parts(base)
    found: list[tuple[TopicName, str]] = []
    for name in dict.fromkeys((base, *parts)):
        for kind, ending in KINDS.items():
            try:
                topic = TopicName.parse(f"{name}-{subscription}{ending}")
            except InvalidTopicName:
                continue
            if await directory.catalogue.partitions(topic) or await directory.exists(topic):
                found.append((topic, kind))
    return found


async def _one_of(site: Site, request: Request, kind: object) -> TopicName:
    """The one topic of a kind, or of the kind and partition of the path."""
    if kind is None:
        kind = "DLQ"
    if kind not in KINDS:
        raise Refused(412, f"kind is {kind!r}: expected {' or '.join(KINDS)}")
    directory, base = serving(site), await _base(site, request)
    name, subscription = topic_of(request), subscription_name(request)
    known = await _topics(directory, base, subscription)
    all_of_kind = [topic for topic, one in known if one == kind]
    if name.partition >= 0:
        wanted = f"{name}-{subscription}{KINDS[str(kind)]}"
        all_of_kind = [topic for topic in all_of_kind if str(topic) == wanted] or all_of_kind
    if not all_of_kind:
        raise Refused(404, f"subscription {subscription} of {base} has no {kind} topic")
    if len(all_of_kind) > 1:
        names = ", ".join(map(str, all_of_kind))
        raise Refused(412, f"there are several: {names}; name the partition in the path")
    (topic,) = all_of_kind
    if await directory.catalogue.partitions(topic):
        raise Refused(412, f"{topic} is partitioned: search its partitions one by one")
    return topic


async def _named(site: Site, request: Request, name: object) -> TopicName:
    """A dead letter topic with a name of its own, in the namespace of the path."""
    base, directory = await _base(site, request), serving(site)
    if not isinstance(name, str):
        raise Refused(400, f"topic is {name!r}: expected the name of a dead letter topic")
    topic = TopicName.parse(
        name if "://" in name else f"{base.domain}://{base.namespace_name}/{name}"
    )
    if topic.namespace_name != base.namespace_name or not topic.is_persistent or topic.base == base:
        raise Refused(412, f"topic is {topic}: expected another one of {base.namespace_name}")
    if await directory.catalogue.partitions(topic) and topic.partition < 0:
        raise Refused(412, f"{topic} is partitioned: name its partitions one by one")
    if not await directory.exists(topic):
        raise Refused(404, f"topic {topic} does not exist: check the name")
    return topic


# Storing again -----------------------------------------------------------------------------


async def replay(site: Site, request: Request) -> Response:
    """Publish dead letters to the topic that they came from; with `dryRun`, only count them.

    They stay where they are: acknowledge or delete them there when they were handled.
    """
    body = json_of(request) if request.body.strip() else {}
    if not isinstance(body, dict):
        raise Refused(400, "the body: expected an object")
    wanted, named = _wanted(body), body.get("topic")
    if named is None:
        source = await _one_of(site, request, body.get("kind"))
    else:
        source = await _named(site, request, named)
    rate = _number(body, "rate", 100, 10_000)
    if wanted.most_found > rate * LONGEST_SECONDS:
        raise Refused(
            412,
            f"limit is {wanted.most_found} and rate {rate} a second: that takes more than "
            f"{LONGEST_SECONDS} s; lower the limit, and continue with `from`",
        )
    base = await _base(site, request)
    running = _Replay(site, base, source, wanted, rate, body.get("dryRun") is True)
    await _run(running)
    return json_response(running.answer(), 200 if running.error is None else 409)


class _Replay:
    """One replay: reads a page, publishes it to each topic, and so on."""

    def __init__(
        self, site: Site, base: TopicName, source: TopicName, wanted: _Wanted, rate: int, dry: bool
    ) -> None:
        self.error: str | None = None
        self.site, self.base, self.source = site, base, source
        self.wanted, self.rate, self.dry = wanted, rate, dry
        self._versions: dict[bytes, bytes | None] = {}
        self.next: tuple[int, int] | None = wanted.start
        self.matched = self.replayed = self.skipped = self.scanned = self._targets = 0

    def answer(self) -> dict[str, Any]:
        """What was done, and where to continue; with `reason` if it did not go to its end."""
        following = None if self.next is None else _text(self.next)
        found: dict[str, Any] = {
            "source": str(self.source),
            "matched": self.matched,
            "replayed": self.replayed,
            "skipped": self.skipped,
            "entriesScanned": self.scanned,
            "dryRun": self.dry,
            "next": following,
        }
        return found if self.error is None else {**found, "reason": self.error}

    async def publish(self, found: list[Message]) -> None:
        """In the order in which they were found, for each topic."""
        by_topic: dict[TopicName, list[tuple[bytes, bytes]]] = {}
        for ledger, entry, _, head, payload in found:
            metadata = pb.MessageMetadata.FromString(head)
            if metadata.HasField("uuid"):
                self.skipped += 1  # a chunk alone is no message
                continue
            target = await self._target(metadata)
            again = await self._again(metadata, f"{ledger}:{entry}")
            by_topic.setdefault(target, []).append((again.SerializeToString(), payload))
        if self.dry:
            return
        for target, messages in by_topic.items():
            stored = await self.site.owners.ask(replaying.store, target, messages)
            self.replayed += stored
            if stored < len(messages):
                self.error = (
                    f"{target} refused a message after {self.replayed}: see its log; continue "
                    "behind those that are there, which have the property REPLAYED_FROM"
                )
                return

    async def _target(self, metadata: pb.MessageMetadata) -> TopicName:
        """The partition that a message came from, if it says so; else the one of its key."""
        partitions = await serving(self.site).catalogue.partitions(self.base)
        if not partitions:
            return self.base
        named = {one.key: one.value for one in metadata.properties}.get("REAL_TOPIC", "")
        try:
            origin = TopicName.parse(named)
        except InvalidTopicName:
            origin = self.base
        if origin.base == self.base and 0 <= origin.partition < partitions:
            return origin
        self._targets += 1
        key = metadata.partition_key if metadata.HasField("partition_key") else str(self._targets)
        return self.base.with_partition(murmur3_32(str(key).encode()) % partitions)

    async def _again(self, metadata: pb.MessageMetadata, source: str) -> pb.MessageMetadata:
        """The metadata of the copy: what its publisher has set, and where it was found."""
        again = pb.MessageMetadata()
        again.CopyFrom(metadata)
        for field in ("replicated_from", "deliver_at_time", "txnid_least_bits", "txnid_most_bits",
                      "highest_sequence_id", "schema_version"):  # fmt: skip
            again.ClearField(field)
        del again.replicate_to[:], again.properties[:]
        again.properties.extend(
            one for one in metadata.properties if one.key not in OF_DEAD_LETTERS
        )
        again.properties.add(key="REPLAYED_FROM", value=f"{self.source}:{source}")
        if metadata.HasField("schema_version"):
            version = await self._version(metadata.schema_version)
            if version is not None:
                again.schema_version = version
        return again

    async def _version(self, version: bytes) -> bytes | None:
        """The version that the topic gives to a schema of the dead letter topic; None for none."""
        if version not in self._versions:
            schemas = serving(self.site).schemas
            found = None
            if len(version) == 8:
                found = await schemas.get(self.source, int.from_bytes(version, "big"))
            try:
                number = found and await schemas.number_of(self.base, found.schema)
            except SchemaRefused:
                number = None
            self._versions[version] = None if number is None else number.to_bytes(8, "big")
        return self._versions[version]


async def _run(replay: "_Replay") -> None:
    """Until the limit, the end of the topic, or the first message that is refused."""
    wanted = replay.wanted
    while replay.next is not None and replay.error is None:
        left = min(wanted.most_found - replay.matched, PAGE, replay.rate)
        to_scan = wanted.most_scanned - replay.scanned
        if left <= 0 or to_scan <= 0:
            return
        page = _Wanted(replay.next, left, to_scan, wanted.filter)
        async with replay.site.reading:
            scanned, unreadable, found, following = await _search(replay.site, replay.source, page)
            replay.scanned += scanned
            replay.skipped += unreadable
            replay.matched += len(found)
            await replay.publish(found)
        if replay.error is None:
            replay.next = following
            if found and following is not None and not replay.dry:
                await asyncio.sleep(len(found) / replay.rate)


def routes() -> Iterator[Route[Handler]]:
    """The routes that this module answers."""
    topic = f"/admin/v2/{TOPIC}"
    letters = f"{topic}/subscription/{{subscription}}/deadLetters"
    yield Route("GET", f"{topic}/search", CONSUME, OWNER, search, query=RANGE)
    yield Route("GET", letters, CONSUME, OWNER, topics)
    yield Route("GET", f"{letters}/messages", CONSUME, OWNER, dead_letters, query=(*RANGE, KIND))
    schema = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": list(KINDS)},
            "topic": {"type": "string"},
            "from": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND},
            "scan": {"type": "integer", "minimum": 1, "maximum": MOST_SCANNED},
            "rate": {"type": "integer", "minimum": 1, "maximum": 10_000},
            "key": {"type": "string"},
            "property": {"type": "string"},
            "dryRun": {"type": "boolean"},
        },
    }
    body = Body(schema, "which messages, how many a second, and whether only to count", False)
    yield Route("POST", f"{letters}/replay", TENANT_ADMIN, OWNER, replay, body=body, success=(200,))
