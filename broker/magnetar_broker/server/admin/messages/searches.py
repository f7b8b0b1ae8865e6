"""Searching a topic by key or property.

Every search is bounded: a request reads a range, and answers where the next request continues.
"""

import asyncio
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from magnetar_broker.base.formats import iso
from magnetar_broker.server.admin.context import AdminContext
from magnetar_broker.server.admin.messages.backlog_actions import topic_with_messages
from magnetar_broker.server.admin.operations import searching
from magnetar_broker.server.admin.operations.searching import Filter, Found, Message, Place
from magnetar_broker.server.admin.operations.shown_message import text_of
from magnetar_broker.server.http.messages import Refused, Request, Response, json_response
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import TopicName

MOST_FOUND, MOST_SCANNED = 1000, 100_000
PREVIEW = 1024
"""The bytes of a payload that are shown unless more are asked for."""
SHOWN_AT_ONCE = 50
"""The number of messages after which others run."""


@dataclass(frozen=True)
class SearchRequest:
    """The filter of a search, and its limits."""

    start: Place
    most_found: int
    most_scanned: int
    filter: Filter


def search_request_of(given: dict[str, Any]) -> SearchRequest:
    """Return the search that the query or the body describes."""
    key, text = given.get("key"), given.get("property")
    if not isinstance(key, str | None) or not isinstance(text, str | None):
        raise Refused(400, "key and property: expected texts")
    name, equals, value = (text or "").partition("=")
    return SearchRequest(
        _place(given.get("from")),
        number_of(given, "limit", 100, MOST_FOUND),
        number_of(given, "scan", 10_000, MOST_SCANNED),
        (key, name or None, value if equals else None),
    )


def _place(text: Any) -> Place:
    if text is None:
        return -1, -1, 0
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) not in (2, 3) or not all(map(_is_number, parts)):
        raise Refused(
            400, f"from is {text!r}: expected ledger:entry or ledger:entry:index, such as 3:0"
        )
    ledger, entry, index = (min(int(part), 1 << 62) for part in (*parts, "0")[:3])
    return ledger, entry, index


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20


def place_text(place: Place) -> str:
    """Return a place in the form that `from` takes."""
    ledger, entry, index = place
    return f"{ledger}:{entry}" + (f":{index}" if index > 0 else "")


def number_of(given: dict[str, Any], name: str, default: int, most: int) -> int:
    """Return a number from 1 to `most`; refuse others."""
    value = given.get(name, default)
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise Refused(400, f"{name} is {value!r}: expected a whole number") from error
    if isinstance(value, bool) or not 1 <= number <= most:
        raise Refused(412, f"{name} is {value}: expected 1 to {most}")
    return number


async def search(context: AdminContext, request: Request) -> Response:
    """Return the messages of a topic with a key or a property, from a position on."""
    topic = await topic_with_messages(context, request, "search")
    return await shown(context, topic, request)


async def shown(context: AdminContext, topic: TopicName, request: Request) -> Response:
    """Answer the messages of a topic that the query of a request finds."""
    given = _given(request)
    wanted, preview = search_request_of(given), number_of(given, "payload", PREVIEW, 1 << 20)
    async with context.reading:
        scanned, unreadable, found, following = await find(context, topic, wanted, preview)
        messages = []
        for number, message in enumerate(found, 1):
            messages.append(_json(message))
            if number % SHOWN_AT_ONCE == 0:
                await asyncio.sleep(0)
    return json_response(
        {
            "topic": str(topic),
            "messages": messages,
            "entriesScanned": scanned,
            "entriesUnreadable": unreadable,
            "next": None if following is None else place_text(following),
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


async def find(
    context: AdminContext, topic: TopicName, wanted: SearchRequest, preview: int | None
) -> Found:
    """Search a topic in the process that serves it; payloads are as `searching.search` says."""
    return await context.owners.ask(
        searching.search,
        topic,
        wanted.start,
        wanted.filter,
        wanted.most_scanned,
        wanted.most_found,
        preview,
    )


def _json(message: Message) -> dict[str, Any]:
    ledger, entry, index, head, payload, size, why = message
    metadata = pb.MessageMetadata.FromString(head)
    shown: dict[str, Any] = {
        "id": f"{ledger}:{entry}" + (f":{index}" if index >= 0 else ""),
        "properties": {text_of(one.key): text_of(one.value) for one in metadata.properties},
        "publishTime": iso(metadata.publish_time),
        "producerName": text_of(metadata.producer_name),
        "sequenceId": metadata.sequence_id,
        "encrypted": bool(metadata.encryption_keys),
    }
    if metadata.HasField("partition_key"):
        shown["key"] = text_of(metadata.partition_key)
    if metadata.HasField("event_time"):
        shown["eventTime"] = iso(metadata.event_time)
    if why is not None:
        shown["unreadable"] = why
    return shown | {"size": size, "payload": b64encode(payload).decode()}
