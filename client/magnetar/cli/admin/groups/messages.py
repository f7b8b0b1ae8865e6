"""Special steps of commands of `magnetar admin topics` that show messages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from magnetar.cli.admin.declarations import Command, Lines, Special, Values

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient


def _peek(command: Command, admin: "AdminClient", values: Values) -> Iterator[Any]:
    """Yield the next messages of a subscription, entry by entry."""
    from magnetar.admin.client import Refused  # noqa: PLC0415
    from magnetar.cli.admin.peeking import messages_of  # noqa: PLC0415

    left, position = values["count"], 0
    while left > 0:
        position += 1
        path = command.url(values | {"position": position})
        try:
            messages = messages_of(admin.ask("GET", path))
        except Refused as error:
            if error.status == 404 and position > 1:
                return  # after the last message
            raise
        yield from messages[:left]
        left -= len(messages)


def _read(command: Command, admin: "AdminClient", values: Values) -> Iterator[Any]:
    """Return the messages of one entry."""
    from magnetar.cli.admin.peeking import messages_of  # noqa: PLC0415

    return iter(messages_of(admin.ask("GET", command.url(values), query=command.query(values))))


def _message(message: dict[str, Any]) -> Lines:
    from magnetar.cli.admin.peeking import lines_of_message  # noqa: PLC0415

    return lines_of_message(message)


SPECIALS = {
    "messages.reading.peek": Special(run=_peek, show=_message),
    "messages.reading.examine": Special(run=_read, show=_message),
    "messages.reading.by_id": Special(run=_read, show=_message),
}
