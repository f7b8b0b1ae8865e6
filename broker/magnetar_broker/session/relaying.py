"""The table of commands of one of several processes, which forwards those for others' topics.

SEND, ACK and FLOW are forwarded by the session's receive loop.  Commands that are not in it need no
topic's process: every process answers lookups, lists and schemas.
"""

from collections.abc import Callable, Mapping
from typing import Any

from magnetar_broker.session.handle_table import HandleTable
from magnetar_broker.session.handlers import HANDLERS
from magnetar_broker.session.relay import Ids, Upstream
from magnetar_broker.session.session import Handler, Session
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.errors import InvalidTopicName
from magnetar_proto.names import TopicName

Command = pb.BaseCommand
OwnerOf = Callable[[TopicName], int | None]
"""The number of the process that serves a topic; None if it is this one."""
Forward = Callable[[Upstream, Ids, int, Any], None]


class HandleLocator:
    """Locates a session's producers or consumers, in any process, by the client's ids."""

    def __init__(self, of: str, here: Callable[[Session], HandleTable[Any]]) -> None:
        self._of = of
        self._here = here

    def number(self, command: Any) -> int:
        """Return the id in a command."""
        found: int = getattr(command, f"{self._of}_id")
        return found

    def is_here(self, session: Session, command: Any) -> bool:
        """Return whether this process has the id of a command."""
        return self._here(session).holds(self.number(command))

    def elsewhere(self, session: Session) -> Ids:
        """Return the upstreams with open producers or consumers."""
        if session.relay is None:
            return {}
        ids: Ids = getattr(session.relay, f"{self._of}s")
        return ids


PRODUCER = HandleLocator("producer", lambda session: session.publishing.producers)
CONSUMER = HandleLocator("consumer", lambda session: session.consumers)


def relaying(
    owner_of: OwnerOf, handlers: Mapping[int, Handler] = HANDLERS
) -> Mapping[int, Handler]:
    """Return the table of a process among several; `handlers` serve what is not forwarded.

    The process that serves a forwarded command authorizes it.
    """
    opening: dict[int, HandleLocator] = {Command.PRODUCER: PRODUCER, Command.SUBSCRIBE: CONSUMER}
    opened: dict[int, tuple[HandleLocator, Forward]] = {
        Command.CLOSE_PRODUCER: (PRODUCER, Upstream.close),
        Command.CLOSE_CONSUMER: (CONSUMER, Upstream.close),
        Command.UNSUBSCRIBE: (CONSUMER, Upstream.unsubscribe),
        Command.REDELIVER_UNACKNOWLEDGED_MESSAGES: (CONSUMER, _notify),
        Command.SEEK: (CONSUMER, _request),
        Command.GET_LAST_MESSAGE_ID: (CONSUMER, _request),
        Command.CONSUMER_STATS: (CONSUMER, _request),
    }
    schema = Command.GET_OR_CREATE_SCHEMA
    return {
        **handlers,
        **{kind: _opening(of, handlers[kind], owner_of) for kind, of in opening.items()},
        **{kind: _of_opened(of, how, handlers[kind]) for kind, (of, how) in opened.items()},
        schema: _of_topic(handlers[schema], owner_of),
    }


def _opening(kind: HandleLocator, here: Handler, owner_of: OwnerOf) -> Handler:
    """Return the handler of PRODUCER or SUBSCRIBE, which runs where the id or the topic is."""

    def handle(session: Session, command: Any) -> Any:
        number = kind.number(command)
        upstream = kind.elsewhere(session).get(number)
        # promise[without and not kind.is_here(session, command)]: an id that is here is not opened
        #   elsewhere
        if upstream is None and not kind.is_here(session, command):
            upstream = _upstream_of(session, command.topic, owner_of)
        if upstream is None:
            return here(session, command)
        upstream.open(kind.elsewhere(session), number, command)
        return None

    return handle


def _of_opened(kind: HandleLocator, forward: Forward, here: Handler) -> Handler:
    """Return the handler of a command of a producer or consumer."""

    def handle(session: Session, command: Any) -> Any:
        ids, number = kind.elsewhere(session), kind.number(command)
        if number not in ids:
            return here(session, command)
        forward(ids[number], ids, number, command)
        return None

    return handle


def _of_topic(here: Handler, owner_of: OwnerOf) -> Handler:
    """Return the handler of a command that names a topic."""

    def handle(session: Session, command: Any) -> Any:
        upstream = _upstream_of(session, command.topic, owner_of)
        if upstream is None:
            return here(session, command)
        upstream.request(command)
        return None

    return handle


def _upstream_of(session: Session, topic: str, owner_of: OwnerOf) -> Upstream | None:
    """Return the upstream to a topic's process; None if it is this one, or the name is invalid.

    Commands from an upstream are not relayed further: two processes that know of a move at
    different times would relay to each other.  Its client is refused here, and tries again.
    """
    if session.is_upstream:  # promise: what was relayed is not relayed again
        return None
    try:
        owner = owner_of(TopicName.parse(topic))
    except InvalidTopicName:
        return None
    return None if owner is None else session.relayed().upstream(owner)


def _request(upstream: Upstream, ids: Ids, number: int, command: Any) -> None:
    upstream.request(command)


def _notify(upstream: Upstream, ids: Ids, number: int, command: Any) -> None:
    upstream.send(command)
