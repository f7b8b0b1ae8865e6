"""Message ids in the body of a request, in the form of the admin API."""

from typing import Any, NamedTuple

from magnetar_broker.server.admin.operations.loading import Position
from magnetar_broker.server.http.messages import Refused, Request
from magnetar_proto.ids import EARLIEST, LATEST

ENDS: dict[str, Position] = {
    "earliest": (EARLIEST.ledger, EARLIEST.entry, -1, -1),
    "latest": (LATEST.ledger, LATEST.entry, -1, -1),
}
EXPECTED = (
    'an object with ledgerId and entryId, optionally batchIndex and excluded, or "earliest" or '
    '"latest"'
)


class MessagePosition(NamedTuple):
    """The position of a message or, if `excluded`, the position after it."""

    message: Position
    excluded: bool = False


def message_position_of(request: Request) -> MessagePosition:
    """Return the position that the body names."""
    body = request.json_or_none()
    if isinstance(body, str) and body in ENDS:
        return MessagePosition(ENDS[body])
    if not isinstance(body, dict) or not {"ledgerId", "entryId"} <= body.keys():
        raise Refused(400, f"the body names no message: expected {EXPECTED}")
    message = (
        _number(body, "ledgerId"),
        _number(body, "entryId"),
        _number(body, "batchIndex"),
        _number(body, "partitionIndex"),
    )
    return MessagePosition(message, body.get("excluded") is True)


def ledger_and_entry_of(request: Request) -> tuple[int, int]:
    """Return the numbers of the message that the body names; as in Pulsar, a missing one is -1."""
    body = request.json_or_none()
    if not isinstance(body, dict):
        raise Refused(
            400, "the body names no message: expected an object with ledgerId and entryId"
        )
    return _number(body, "ledgerId"), _number(body, "entryId")


def _number(body: dict[str, Any], name: str) -> int:
    number = body.get(name, -1)
    if type(number) is not int or not -(1 << 63) <= number < 1 << 63:
        raise Refused(400, f"{name} is {number!r}: expected a signed 64-bit integer")
    return number
