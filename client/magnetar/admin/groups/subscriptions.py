"""`magnetar admin subscriptions`: what pulsar-admin has among the commands of topics.

The subscription is the second argument here, and the names are shorter.
"""

from dataclasses import replace

from magnetar.admin.declarations import Command, argument
from magnetar.admin.groups import topics

SUBSCRIPTION = argument("subscription", topics.SUBSCRIPTION.help)


def _renamed(command: Command, name: str) -> Command:
    parameters = tuple(
        SUBSCRIPTION if one is topics.SUBSCRIPTION else one for one in command.parameters
    )
    return replace(command, name=name, parameters=parameters)


COMMANDS = (
    _renamed(topics.LIST_SUBSCRIPTIONS, "list"),
    _renamed(topics.CREATE_SUBSCRIPTION, "create"),
    _renamed(topics.UNSUBSCRIBE, "delete"),
    _renamed(topics.GET_PROPERTIES, "get-properties"),
    _renamed(topics.UPDATE_PROPERTIES, "update-properties"),
    _renamed(topics.PEEK, "peek-messages"),
    _renamed(topics.RESET, "reset-cursor"),
    _renamed(topics.SKIP, "skip"),
    _renamed(topics.CLEAR_BACKLOG, "clear-backlog"),
    _renamed(topics.EXPIRE, "expire-messages"),
    _renamed(topics.ANALYZE, "analyze-backlog"),
)
