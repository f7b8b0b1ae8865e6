"""Messages that the broker shows without delivering them: their headers and payload."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from magnetar.admin.client import Answer
from magnetar.cli.admin.showing import moment, plain

Peeked = dict[str, Any]
PREFIX = "x-pulsar-"


def messages_of(answer: Answer) -> list[Peeked]:
    """Return the messages of an entry: one, or all messages of its batch."""
    headers = {
        name.lower().removeprefix(PREFIX): text
        for name, text in answer.headers.items()
        if name.lower().startswith(PREFIX)
    }
    count = headers.pop("num-batch-message", None)
    entry = _described(headers)
    if count is None or headers.get("is-encrypted") == "true":
        return [entry | value_of(answer.body)]
    from magnetar_proto.batch import decode_batch  # noqa: PLC0415
    from magnetar_proto.errors import BadBatch  # noqa: PLC0415

    try:
        parts = decode_batch(answer.body, int(count))
    except BadBatch as error:
        return [entry | {"batch": f"not readable: {error}"} | value_of(answer.body)]
    found = []
    for index, (metadata, payload) in enumerate(parts):
        own: Peeked = {"messageId": f"{entry['messageId']}:{index}"}
        if metadata.HasField("partition_key"):
            own["key"] = metadata.partition_key
        if metadata.HasField("event_time"):
            own["eventTime"] = moment(metadata.event_time)
        if metadata.properties:
            own["properties"] = {pair.key: pair.value for pair in metadata.properties}
        found.append(entry | own | (NULL if metadata.null_value else value_of(payload)))
    return found


NULL: Peeked = {"value": None}
MEMBERS = {
    "message-id": "messageId",
    "producer-name": "producer",
    "sequence-id": "sequenceId",
    "publish-time": "publishTime",
    "event-time": "eventTime",
    "deliver-at-time": "deliverAtTime",
    "partition-key": "key",
    "compression": "compression",
    "is-encrypted": "encrypted",
}


def _described(headers: Mapping[str, str]) -> Peeked:
    found: Peeked = {"messageId": "?"}
    found.update({MEMBERS[name]: text for name, text in headers.items() if name in MEMBERS})
    if "property" in headers:
        try:
            found["properties"] = json.loads(headers["property"])
        except ValueError:
            found["properties"] = headers["property"]
    return found


def value_of(payload: bytes) -> Peeked:
    """Return a payload as text if it is valid text, else in hexadecimal."""
    try:
        return {"value": payload.decode()}
    except UnicodeDecodeError:
        return {"valueHex": payload.hex()}


def lines_of_message(message: Peeked) -> Iterator[str]:
    """Yield the lines that show a message, one for each known attribute."""
    yield f"message {message['messageId']}"
    for name, value in message.items():
        if name != "messageId":
            text = "null" if name == "value" and value is None else plain(value)
            yield f"  {name:<12} {text}"
