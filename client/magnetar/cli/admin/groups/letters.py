"""Special steps of commands that search messages, and those for dead letters."""

from base64 import b64decode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from magnetar.cli.admin.declarations import Command, Lines, Special, Values

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

AT_ONCE = 1000
"""The number of messages in one answer."""
TABLE = ("topic", "kind", "messages", "bytes")


def _found(command: Command, admin: "AdminClient", values: Values) -> Iterator[Any]:
    """Yield the messages that a search finds; it sends one request after another."""
    place, left, unread = values["from"], values["limit"], values["scan"]
    while left > 0 and (unread is None or unread > 0):
        query = {**command.query(values), "limit": str(min(left, AT_ONCE))}
        if place is not None:
            query["from"] = place
        if unread is not None:
            query["scan"] = str(min(unread, MOST_SCANNED))
        found = admin.ask("GET", command.url(values), query=query).value
        yield from found["messages"]
        left -= len(found["messages"])
        unread = None if unread is None else unread - found["entriesScanned"]
        place = found["next"]
        if place is None:
            return
    click.echo(f"there may be more: continue with --from {place}", err=True)


MOST_SCANNED = 100_000
"""The number of entries that one request may read."""


def _message(message: dict[str, Any]) -> Lines:
    from magnetar.cli.admin.peeking import lines_of_message, value_of  # noqa: PLC0415

    shown = {"messageId": message["id"]}
    shown |= {name: message[name] for name in SHOWN if message.get(name)}
    if message.get("encrypted"):
        shown["encrypted"] = True
    return lines_of_message(shown | value_of(b64decode(message["payload"])))


SHOWN = (
    "producerName",
    "sequenceId",
    "publishTime",
    "eventTime",
    "key",
    "properties",
    "size",
    "unreadable",
)


def _topics(found: list[dict[str, Any]]) -> Lines:
    from magnetar.cli.admin.showing import table  # noqa: PLC0415

    return table(TABLE, ([one[name] for name in TABLE] for one in found))


def _replay(command: Command, values: Values) -> object:
    topic = values["dead_letter_topic"]
    return command.members(values) | ({"topic": topic} if topic else {})


SPECIALS = {
    "messages.searches.search": Special(run=_found, show=_message),
    "messages.dead_letters.topics": Special(show=_topics),
    "messages.dead_letters.replay": Special(body=_replay),
    "messages.dead_letters.dead_letters": Special(run=_found, show=_message),
}
