"""Commands that search messages, and those for the dead letters of a subscription."""

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from magnetar.cli.admin.declarations import Command, Lines, Values, flag, option
from magnetar.cli.admin.groups.messages import OF_SUBSCRIPTION, SUBSCRIPTION
from magnetar.cli.admin.groups.topic_policies import PATH, SUBJECT
from magnetar.cli.admin.kinds import NUMBER, one_of

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

AT_ONCE = 1000
"""The number of messages in one answer."""
LETTERS = f"{OF_SUBSCRIPTION}/deadLetters"
KIND = option("--kind", "Which of its topics.", one_of("DLQ", "RETRY"), default="DLQ")
FROM = option("--from", "Where to begin, LEDGER:ENTRY; at the beginning if absent.")
LIMIT = option("-n, --limit", "How many at most.", NUMBER, default="100")
KEY = option("-k, --key", "Only messages with this key.")
PROPERTY = option("-p, --property", "Only messages with this property: NAME or NAME=VALUE.")
PAYLOAD = option("--payload", "The number of bytes shown of each payload.", NUMBER, query="payload")
RANGE = (
    FROM,
    LIMIT,
    option("--scan", "The most entries to read; all if absent.", NUMBER),
    replace(KEY, query="key"),
    replace(PROPERTY, query="property"),
    PAYLOAD,
)
TABLE = ("topic", "kind", "messages", "bytes")


def _found(command: Command) -> Command:
    """Make a search command of this declaration, which sends one request after another."""

    def run(admin: "AdminClient", values: Values) -> Iterator[Any]:
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

    return replace(command, run=run, show=_message)


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


SEARCH = _found(
    Command(
        "search",
        "Show the messages of a topic with a key or a property.",
        "GET",
        f"{PATH}/search",
        (SUBJECT, *RANGE),
    )
)
TOPICS = Command(
    "dead-letters",
    "List the dead letter and retry topics of a subscription.",
    "GET",
    LETTERS,
    (SUBJECT, SUBSCRIPTION),
    show=_topics,
)
BROWSE = _found(
    Command(
        "browse-dead-letters",
        "Show messages in the dead letter or retry topic of a subscription.",
        "GET",
        f"{LETTERS}/messages",
        (SUBJECT, SUBSCRIPTION, replace(KIND, query="kind"), *RANGE),
    )
)
REPLAY = Command(
    "replay-dead-letters",
    "Publish dead letters to their topic again. They stay in the dead letter topic.",
    "POST",
    f"{LETTERS}/replay",
    (
        SUBJECT,
        SUBSCRIPTION,
        replace(KIND, default=None, member="kind"),
        option("--dead-letter-topic", "The topic, if it has another name.", member="topic"),
        replace(FROM, member="from"),
        replace(LIMIT, member="limit"),
        option("--scan", "The most entries to read.", NUMBER, member="scan"),
        option("-r, --rate", "Messages a second.", NUMBER, default="100", member="rate"),
        replace(KEY, member="key"),
        replace(PROPERTY, member="property"),
        flag("--dry-run", "Only count them.", member="dryRun"),
    ),
)
OF_SUBSCRIPTIONS = (TOPICS, BROWSE, REPLAY)
