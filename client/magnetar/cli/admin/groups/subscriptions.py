"""Special steps of commands of subscriptions."""

import time
from typing import TYPE_CHECKING

from magnetar.cli.admin.declarations import Command, Contradiction, Special, Values
from magnetar.cli.admin.showing import with_tables

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient


def _start(command: Command, values: Values) -> object:
    start = dict(values["messageId"])
    return {**start, "properties": values["property"]} if values["property"] else start


def _reset(command: Command, admin: "AdminClient", values: Values) -> None:
    """Reset a subscription to a message, or to a time."""
    path = command.url(values)
    if (values["time"] is None) == (values["messageId"] is None):
        raise Contradiction("give either --time or --messageId")
    if values["time"] is not None:
        admin.post(f"{path}/{round((time.time() - values['time']) * 1000)}")
    else:
        body = {**values["messageId"], "excluded": values["exclude_reset_position"]}
        admin.post(path, body)


def _expire(command: Command, admin: "AdminClient", values: Values) -> None:
    """Expire messages by age, or up to a message."""
    path = command.url(values)
    if (values["seconds"] is None) == (values["position"] is None):
        raise Contradiction("give either --expireTime or --position")
    if values["seconds"] is not None:
        admin.post(f"{path}/{values['seconds']}")
    else:
        body = {**values["position"], "excluded": values["exclude_reset_position"]}
        admin.post(path, body)


def _new_properties(command: Command, values: Values) -> object:
    if bool(values["property"]) == bool(values["clear"]):
        raise Contradiction("give either --property or --clear")
    return values["property"] or {}


SPECIALS = {
    "subscriptions.create": Special(body=_start),
    "subscriptions.set_properties": Special(body=_new_properties),
    "messages.backlog_actions.reset_to_message": Special(run=_reset),
    "messages.backlog_actions.expire_to_message": Special(run=_expire),
    "statistics.why_not_delivering": Special(
        show=lambda found: with_tables(found, consumers=(), damaged=())
    ),
}
