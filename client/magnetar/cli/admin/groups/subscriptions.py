"""`magnetar admin subscriptions`, and the same commands of `magnetar admin topics`.

Here the subscription is the second argument, and the names are shorter.
"""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.cli.admin.declarations import (
    Command,
    Contradiction,
    Values,
    argument,
    flag,
    option,
    whole_body,
)
from magnetar.cli.admin.groups import letters
from magnetar.cli.admin.groups.messages import MESSAGE, OF_SUBSCRIPTION, OLDER, PEEK, SUBSCRIPTION
from magnetar.cli.admin.groups.policies import SWITCH, switched
from magnetar.cli.admin.groups.topic_policies import PATH, SUBJECT
from magnetar.cli.admin.kinds import NUMBER, PAIRS, POSITION, SECONDS
from magnetar.cli.admin.showing import with_tables

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

FORCE = flag("-f, --force", "Also while clients are connected.", query="force")
PROPERTY = option("-p, --property", "A property, a=1; repeatable.", PAIRS, many=True)
BEHIND = flag("-e, --exclude-reset-position", "Begin behind the message.")


def _start(values: Values) -> object:
    start = dict(values["messageId"])
    return {**start, "properties": values["property"]} if values["property"] else start


def _reset(admin: "AdminClient", values: Values) -> None:
    """Reset a subscription to a message, or to a time."""
    path = RESET.url(values)
    if (values["time"] is None) == (values["messageId"] is None):
        raise Contradiction("give --time or --messageId, one of them")
    if values["time"] is not None:
        admin.post(f"{path}/{round((time.time() - values['time']) * 1000)}")
    else:
        body = {**values["messageId"], "excluded": values["exclude_reset_position"]}
        admin.post(path, body)


def _expire(admin: "AdminClient", values: Values) -> None:
    """Expire messages by age, or up to a message."""
    path = EXPIRE.url(values)
    if (values["expireTime"] is None) == (values["position"] is None):
        raise Contradiction("give --expireTime or --position, one of them")
    if values["expireTime"] is not None:
        admin.post(f"{path}/{values['expireTime']}")
    else:
        body = {**values["position"], "excluded": values["exclude_reset_position"]}
        admin.post(path, body)


def _new_properties(values: Values) -> object:
    if bool(values["property"]) == bool(values["clear"]):
        raise Contradiction("give --property or --clear, one of them")
    return values["property"] or {}


RESET = Command(
    "reset-cursor",
    "Move a subscription to a message, or to a time.",
    "POST",
    f"{OF_SUBSCRIPTION}/resetcursor",
    (
        SUBJECT,
        SUBSCRIPTION,
        option("-t, --time", "So long ago: 60 (seconds), 3h, 2d.", SECONDS),
        replace(MESSAGE, required=False),
        BEHIND,
    ),
    run=_reset,
)
EXPIRE = Command(
    "expire-messages",
    "Skip old messages of a subscription.",
    "POST",
    f"{OF_SUBSCRIPTION}/expireMessages",
    (SUBJECT, SUBSCRIPTION, OLDER, option("-p, --position", "Up to this one.", POSITION), BEHIND),
    run=_expire,
)
LIST = Command(
    "subscriptions",
    "List the subscriptions of a topic.",
    "GET",
    f"{PATH}/subscriptions",
    (SUBJECT,),
)
CREATE = Command(
    "create-subscription",
    "Create a subscription.",
    "PUT",
    OF_SUBSCRIPTION,
    (
        SUBJECT,
        SUBSCRIPTION,
        replace(MESSAGE, help="Where it begins.", required=False, default="latest"),
        flag("-r, --replicated", "In all clusters.", query="replicated"),
        PROPERTY,
    ),
    body=_start,
)
UNSUBSCRIBE = Command(
    "unsubscribe",
    "Delete a subscription.",
    "DELETE",
    OF_SUBSCRIPTION,
    (SUBJECT, SUBSCRIPTION, FORCE),
)
GET_PROPERTIES = Command(
    "get-subscription-properties",
    "Show the properties of a subscription.",
    "GET",
    f"{OF_SUBSCRIPTION}/properties",
    (SUBJECT, SUBSCRIPTION),
)
UPDATE_PROPERTIES = Command(
    "update-subscription-properties",
    "Replace the properties of a subscription.",
    "PUT",
    f"{OF_SUBSCRIPTION}/properties",
    (SUBJECT, SUBSCRIPTION, PROPERTY, flag("-c, --clear", "Remove all.")),
    body=_new_properties,
)
SKIP = Command(
    "skip",
    "Skip the next messages of a subscription.",
    "POST",
    f"{OF_SUBSCRIPTION}/skip/{{count}}",
    (SUBJECT, SUBSCRIPTION, option("-n, --count", "How many.", NUMBER, required=True)),
)
CLEAR_BACKLOG = Command(
    "clear-backlog",
    "Skip all messages of a subscription.",
    "POST",
    f"{OF_SUBSCRIPTION}/skip_all",
    (SUBJECT, SUBSCRIPTION),
)
ANALYZE = Command(
    "analyze-backlog",
    "Read the backlog of a subscription, and count what is in it.",
    "POST",
    f"{OF_SUBSCRIPTION}/analyzeBacklog",
    (SUBJECT, SUBSCRIPTION, option("-p, --position", "From this message on.", POSITION)),
    body=whole_body("position"),
)
REPLICATED = f"{OF_SUBSCRIPTION}/replicatedSubscriptionStatus"
OF_TOPICS = (
    LIST,
    CREATE,
    UNSUBSCRIBE,
    GET_PROPERTIES,
    UPDATE_PROPERTIES,
    RESET,
    SKIP,
    CLEAR_BACKLOG,
    EXPIRE,
    ANALYZE,
    Command(
        "get-replicated-subscription-status",
        "Show whether a subscription is replicated, of each partition.",
        "GET",
        REPLICATED,
        (SUBJECT, SUBSCRIPTION),
    ),
    Command(
        "set-replicated-subscription-status",
        "Set whether a subscription is replicated.",
        "POST",
        REPLICATED,
        (SUBJECT, SUBSCRIPTION, *SWITCH),
        body=switched,
    ),
)
"""The same commands in the group `topics`, where pulsar-admin has them."""

# Under shorter names ----------------------------------------------------------------------

ARGUMENT = argument("subscription", SUBSCRIPTION.help)


def _renamed(command: Command, name: str) -> Command:
    parameters = tuple(ARGUMENT if one is SUBSCRIPTION else one for one in command.parameters)
    return replace(command, name=name, parameters=parameters)


COMMANDS = (
    _renamed(LIST, "list"),
    _renamed(CREATE, "create"),
    _renamed(UNSUBSCRIBE, "delete"),
    _renamed(GET_PROPERTIES, "get-properties"),
    _renamed(UPDATE_PROPERTIES, "update-properties"),
    _renamed(PEEK, "peek-messages"),
    _renamed(RESET, "reset-cursor"),
    _renamed(SKIP, "skip"),
    _renamed(CLEAR_BACKLOG, "clear-backlog"),
    _renamed(EXPIRE, "expire-messages"),
    _renamed(ANALYZE, "analyze-backlog"),
    *(_renamed(command, command.name) for command in letters.OF_SUBSCRIPTIONS),
    Command(
        "explain-delivery",
        "Show why a subscription delivers nothing.",
        "GET",
        f"{OF_SUBSCRIPTION}/whyNotDelivering",
        (SUBJECT, ARGUMENT),
        show=lambda found: with_tables(found, consumers=(), damaged=()),
    ),
    Command(
        "key-hash",
        "Show which consumer gets the messages of a key.",
        "GET",
        f"{OF_SUBSCRIPTION}/keyHash",
        (SUBJECT, ARGUMENT, option("-k, --key", "The key.", required=True, query="key")),
    ),
    Command(
        "draining-hashes",
        "Show which hashes of keys wait for acknowledgements of a former consumer.",
        "GET",
        f"{OF_SUBSCRIPTION}/drainingHashes",
        (SUBJECT, ARGUMENT),
    ),
)
