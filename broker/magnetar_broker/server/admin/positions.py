"""Messages that a request's body names, as the admin API writes them."""

from typing import Any, NamedTuple

from magnetar_broker.server.admin.site import json_of
from magnetar_broker.server.http.errors import Refused
from magnetar_broker.server.http.messages import Request
from magnetar_proto.ids import MessageId

ENDS = {"earliest": MessageId(-1, -1), "latest": MessageId((1 << 63) - 1, (1 << 63) - 1)}
FORM = (
    'an object with ledgerId and entryId, and perhaps batchIndex and excluded, or "earliest" or '
    '"latest"'
)


class Place(NamedTuple):
    """A message, or the place behind it."""

    message: MessageId
    excluded: bool = False


def place_of(request: Request) -> Place:
    """The place that the body names."""
    said = json_of(request) if request.body.strip() else None
    if isinstance(said, str) and said in ENDS:
        return Place(ENDS[said])
    if not isinstance(said, dict) or not {"ledgerId", "entryId"} <= said.keys():
        raise Refused(400, f"the body must be {FORM}")
    message = MessageId(
        _number(said, "ledgerId"),
        _number(said, "entryId"),
        _number(said, "batchIndex"),
        _number(said, "partitionIndex"),
    )
    return Place(message, said.get("excluded") is True)


def _number(said: dict[str, Any], name: str) -> int:
    number = said.get(name, -1)
    if type(number) is not int or not -(1 << 63) <= number < 1 << 63:
        raise Refused(400, f"{name} is {number!r}: expected a whole number of 64 bits")
    return number
