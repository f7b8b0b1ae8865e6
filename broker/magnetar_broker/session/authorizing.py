"""The one place where commands are authorized: a table of what each command needs.

Requests over HTTP are authorized in `server/admin/authorizing.py`.

A command that is not in the table is refused.  Nothing is looked up, created or loaded for a
command before it is authorized, so refusals tell nothing about what exists.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from magnetar_broker.authorization.access import Access
from magnetar_broker.authorization.rules import AccessRequest, RequiredPermission
from magnetar_broker.session.handlers import HANDLERS
from magnetar_broker.session.lookups import refuse_lookup, refuse_partitioned_metadata
from magnetar_broker.session.open_resources import close_producer, open_resources_of
from magnetar_broker.session.schemas import refuse_get_or_create_schema, refuse_get_schema
from magnetar_broker.session.session import Handler, Session
from magnetar_broker.session.topic_lists import unwatch
from magnetar_broker.session.transaction_commands import (
    refuse_add_partitions,
    refuse_add_subscriptions,
)
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.names import NamespaceName, TopicName

Command = pb.BaseCommand
Needs = Callable[[Any], list[AccessRequest]]
"""Returns the permissions that a command needs."""
Close = Callable[[Session, Any], None]
"""A function that closes what a command has opened, or is opening."""
Refuse = Callable[[Session, Any, Exception], None]
"""Answers a command with the refusal for an error; a defect is raised again."""


def nothing(command: Any) -> list[AccessRequest]:
    """Return no permission: every authenticated role may send the command.

    Commands of a producer or consumer that is open on the connection are of this kind: it was
    authorized when it was opened, and is closed when its permission ends.
    """
    return []


def super_user(command: Any) -> list[AccessRequest]:
    """Return the permission for commands between brokers."""
    return [AccessRequest(RequiredPermission.SUPER_USER)]


def use_of_topic(command: Any) -> list[AccessRequest]:
    """Return the permission for commands that ask for the owner or the schemas of a topic."""
    return [AccessRequest(RequiredPermission.PRODUCE_OR_CONSUME, _topic(command.topic))]


def publishing_of_schema(command: pb.CommandGetOrCreateSchema) -> list[AccessRequest]:
    """Return the permission to register a schema, which restricts what can be published later."""
    return [AccessRequest(RequiredPermission.PRODUCE, _topic(command.topic))]


def use_of_namespace(command: Any) -> list[AccessRequest]:
    """Return the permission for commands that ask for the topics of a namespace."""
    return [
        AccessRequest(
            RequiredPermission.PRODUCE_OR_CONSUME, str(NamespaceName.parse(command.namespace))
        )
    ]


def producing(command: pb.CommandProducer) -> list[AccessRequest]:
    """Return the permission to publish, and to consume if a subscription is to be created."""
    topic, subscription = _topic(command.topic), command.initial_subscription_name
    of_subscription = (
        [AccessRequest(RequiredPermission.CONSUME, topic, subscription)] if subscription else []
    )
    # promise[without , *of_subscription]: an initial subscription needs its own permission
    return [AccessRequest(RequiredPermission.PRODUCE, topic), *of_subscription]


def consuming(command: pb.CommandSubscribe) -> list[AccessRequest]:
    """Return the permission to consume with the subscription."""
    return [AccessRequest(RequiredPermission.CONSUME, _topic(command.topic), command.subscription)]


def publishing_in_transaction(command: pb.CommandAddPartitionToTxn) -> list[AccessRequest]:
    """Return the permissions to add topics to a transaction, which is going to write to them."""
    return [AccessRequest(RequiredPermission.PRODUCE, _topic(name)) for name in command.partitions]


def acknowledging_in_transaction(command: pb.CommandAddSubscriptionToTxn) -> list[AccessRequest]:
    """Return the permissions to add subscriptions to a transaction."""
    return [
        AccessRequest(RequiredPermission.CONSUME, _topic(one.topic), one.subscription)
        for one in command.subscription
    ]


def _topic(text: str) -> str:
    return str(TopicName.parse(text))


NEEDS: Mapping[int, Needs] = {
    Command.CONNECT: nothing,
    Command.AUTH_RESPONSE: nothing,
    Command.PING: nothing,
    Command.PONG: nothing,
    Command.PARTITIONED_METADATA: use_of_topic,
    Command.LOOKUP: use_of_topic,
    # promise[use_of_topic -> nothing]: schemas need the permission to use their topic
    Command.GET_SCHEMA: use_of_topic,
    Command.GET_OR_CREATE_SCHEMA: publishing_of_schema,
    Command.GET_TOPICS_OF_NAMESPACE: use_of_namespace,
    Command.WATCH_TOPIC_LIST: use_of_namespace,
    Command.WATCH_TOPIC_LIST_CLOSE: nothing,
    Command.PRODUCER: producing,
    # A command that names an open producer or consumer needs nothing more: opening it has needed
    # the permission, and a revocation closes it.
    Command.SEND: nothing,
    Command.CLOSE_PRODUCER: nothing,
    Command.SUBSCRIBE: consuming,
    Command.FLOW: nothing,
    Command.ACK: nothing,
    Command.REDELIVER_UNACKNOWLEDGED_MESSAGES: nothing,
    Command.SEEK: nothing,
    Command.UNSUBSCRIBE: nothing,
    Command.GET_LAST_MESSAGE_ID: nothing,
    Command.CONSUMER_STATS: nothing,
    Command.CLOSE_CONSUMER: nothing,
    Command.TC_CLIENT_CONNECT_REQUEST: nothing,
    Command.NEW_TXN: nothing,
    Command.ADD_PARTITION_TO_TXN: publishing_in_transaction,
    Command.ADD_SUBSCRIPTION_TO_TXN: acknowledging_in_transaction,
    Command.END_TXN: nothing,  # the handler refuses all but the owner and super-users
    # Brokers send these two to each other; clients do not.
    Command.END_TXN_ON_PARTITION: super_user,
    Command.END_TXN_ON_SUBSCRIPTION: super_user,
}
"""The function that returns the permissions that each command needs."""


def _stop_producing(session: Session, command: pb.CommandProducer) -> None:
    held = session.publishing.producers.free(command.producer_id)
    if held is not None:
        close_producer(held, "")


def _stop_consuming(session: Session, command: pb.CommandSubscribe) -> None:
    held = session.consumers.free(command.consumer_id)
    if held is not None:
        held.disconnect()


def _stop_watching(session: Session, command: pb.CommandWatchTopicList) -> None:
    unwatch(session, command.watcher_id)


OPENING: Mapping[int, Close] = {
    Command.PRODUCER: _stop_producing,
    Command.SUBSCRIBE: _stop_consuming,
    Command.WATCH_TOPIC_LIST: _stop_watching,
}
"""The commands that open something, with the function that closes it."""

REFUSALS: Mapping[int, Refuse] = {
    Command.PARTITIONED_METADATA: refuse_partitioned_metadata,
    Command.LOOKUP: refuse_lookup,
    Command.GET_SCHEMA: refuse_get_schema,
    Command.GET_OR_CREATE_SCHEMA: refuse_get_or_create_schema,
    Command.ADD_PARTITION_TO_TXN: refuse_add_partitions,
    Command.ADD_SUBSCRIPTION_TO_TXN: refuse_add_subscriptions,
}
"""The commands whose own answers have refusals; all others are refused with ERROR."""


def handlers_of(access: Access) -> Mapping[int, Handler]:
    """Return the table of commands for clients."""
    return HANDLERS if access.rules is None else _authorized_handlers()


@cache
def _authorized_handlers() -> Mapping[int, Handler]:
    return authorized(HANDLERS)


def authorized(handlers: Mapping[int, Handler]) -> Mapping[int, Handler]:
    """Return a table of handlers that are called for authorized commands only."""
    # promise[kind in NEEDS -> NEEDS.setdefault(kind, nothing)]: a command that has no declared need
    #   is refused
    return {
        kind: handler if NEEDS[kind] is nothing else _authorized(kind, handler)
        for kind, handler in handlers.items()
        if kind in NEEDS
    }


def _authorized(kind: int, handler: Handler) -> Handler:
    needs, close, refuse = NEEDS[kind], OPENING.get(kind), REFUSALS.get(kind)

    async def handle(session: Session, command: Any) -> None:
        try:
            accesses = needs(command)
            if close is None:
                await _authorize(session, accesses)
            else:
                stop = partial(close, session, command)
                with open_resources_of(session).opening(command, accesses, stop) as opening:
                    await _authorize(session, accesses)
                    opening.check()
                    await _done(handler, session, command)
                return
        except Exception as error:
            if refuse is None:
                raise
            refuse(session, command, error)
            return
        await _done(handler, session, command)

    return handle


async def _done(handler: Handler, session: Session, command: Any) -> None:
    session.check_open()
    work = handler(session, command)
    if work is not None:
        await work


async def _authorize(session: Session, accesses: list[AccessRequest]) -> None:
    roles = () if session.roles is None else session.roles.all
    rules = session.broker.access.rules
    if rules is not None and roles and rules.are_super_users(roles):
        return
    await session.broker.names.authorize(roles, accesses)
