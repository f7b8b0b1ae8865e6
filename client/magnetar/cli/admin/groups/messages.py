"""Commands of `magnetar admin topics` that show messages and their places."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from magnetar.cli.admin.declarations import Command, Lines, Values, option, whole_body
from magnetar.cli.admin.groups.topic_policies import PATH, SUBJECT
from magnetar.cli.admin.kinds import MOMENT, NUMBER, POSITION, SECONDS, one_of

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

SUBSCRIPTION = option("-s, --subscription", "Name of the subscription.", required=True)
OF_SUBSCRIPTION = f"{PATH}/subscription/{{subscription:twice}}"
OLDER = option("-t, --expireTime", "Older than this: 3600 (seconds), 3h.", SECONDS)


def _peek(admin: "AdminClient", values: Values) -> Iterator[Any]:
    """Yield the next messages of a subscription, entry by entry."""
    from magnetar.admin.client import Refused  # noqa: PLC0415
    from magnetar.cli.admin.peeking import messages_of  # noqa: PLC0415

    left, position = values["count"], 0
    while left > 0:
        position += 1
        path = PEEK.url(values | {"position": position})
        try:
            messages = messages_of(admin.ask("GET", path))
        except Refused as error:
            if error.status == 404 and position > 1:
                return  # behind the last message
            raise
        yield from messages[:left]
        left -= len(messages)


def _read(command: Command) -> Command:
    """Make a command of this declaration that shows one entry."""

    def run(admin: "AdminClient", values: Values) -> Any:
        from magnetar.cli.admin.peeking import messages_of  # noqa: PLC0415

        return iter(messages_of(admin.ask("GET", command.url(values), query=command.query(values))))

    return replace(command, run=run, show=_message)


def _message(message: dict[str, Any]) -> Lines:
    from magnetar.cli.admin.peeking import lines_of_message  # noqa: PLC0415

    return lines_of_message(message)


PEEK = Command(
    "peek-messages",
    "Show the next messages of a subscription, without delivering them.",
    "GET",
    f"{OF_SUBSCRIPTION}/position/{{position}}",
    (SUBJECT, SUBSCRIPTION, option("-n, --count", "How many.", NUMBER, default="1")),
    run=_peek,
    show=_message,
)
MESSAGE = option("-m, --messageId", "The message.", POSITION, required=True)
MESSAGES = (
    PEEK,
    _read(
        Command(
            "examine-messages",
            "Show a message by its place from the beginning or end.",
            "GET",
            f"{PATH}/examinemessage",
            (
                SUBJECT,
                option(
                    "-i, --initialPosition",
                    "From where.",
                    one_of("latest", "earliest"),
                    default="latest",
                    query="initialPosition",
                ),
                option(
                    "-m, --messagePosition",
                    "The place, 1 is the first.",
                    NUMBER,
                    default="1",
                    query="messagePosition",
                ),
            ),
        )
    ),
    _read(
        Command(
            "get-message-by-id",
            "Show a message by its id.",
            "GET",
            f"{PATH}/ledger/{{ledgerId}}/entry/{{entryId}}",
            (
                SUBJECT,
                option("-l, --ledgerId", "Its ledger.", NUMBER, required=True),
                option("-e, --entryId", "Its entry.", NUMBER, required=True),
            ),
        )
    ),
    Command(
        "get-message-id",
        "Show the id of the first message published at or after a time.",
        "GET",
        f"{PATH}/messageid/{{datetime}}",
        (SUBJECT, option("-d, --datetime", "Such as 2026-01-31T16:53:08Z.", MOMENT, required=True)),
    ),
    Command(
        "get-message-id-by-index",
        "Show the id of the message with an index.",
        "GET",
        f"{PATH}/getMessageIdByIndex",
        (SUBJECT, option("-i, --index", "The index.", NUMBER, required=True, query="index")),
    ),
    Command(
        "last-message-id",
        "Show the id of the last message.",
        "GET",
        f"{PATH}/lastMessageId",
        (SUBJECT,),
    ),
    Command(
        "get-backlog-size",
        "Show how many bytes are stored from a message on.",
        "PUT",
        f"{PATH}/backlogSize",
        (SUBJECT, replace(MESSAGE, required=False, default="earliest")),
        body=whole_body("messageId"),
    ),
    Command(
        "expire-messages-all-subscriptions",
        "Skip old messages for all subscriptions.",
        "POST",
        f"{PATH}/all_subscription/expireMessages/{{expireTime}}",
        (SUBJECT, replace(OLDER, required=True)),
    ),
)
