"""The producers, consumers and watchers of one client, which are closed when permissions end.

`authorization/access.py` uses it when permissions change.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from magnetar_broker.authorization.access import Opened
from magnetar_broker.authorization.rules import AccessRequest, RequiredPermission
from magnetar_broker.base.errors import BrokerError, NotAuthorized
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.producers.producer import Producer
from magnetar_broker.session.session import Session
from magnetar_broker.session.topic_lists import unwatch


class Opening:
    """A command that opens something and is not answered yet."""

    def __init__(
        self, command: object, accesses: list[AccessRequest], stop: Callable[[], None]
    ) -> None:
        self.command = command
        self.accesses = accesses
        self._stop = stop
        self._why: str | None = None

    def close(self, why: str) -> None:
        """Refuse the command with this reason, and stop its execution."""
        self._why = why
        self._stop()

    def check(self) -> None:
        """Raise the refusal if the command was closed."""
        if self._why is not None:
            raise NotAuthorized(self._why)

    def end(self) -> None:
        """Note that the command was answered; if it was closed, close what it has opened since."""
        if self._why is not None:
            self._stop()


class OpenResources:
    """Lists the open producers, consumers and watchers of one client for `Access`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._opening: set[Opening] = set()

    @property
    def roles(self) -> tuple[str, ...]:
        """The client's roles, each of which must be allowed; empty without authentication."""
        roles = self._session.roles
        return () if roles is None else roles.all

    @contextmanager
    def opening(
        self, command: object, accesses: list[AccessRequest], stop: Callable[[], None]
    ) -> Iterator[Opening]:
        """Track a command that opens something; refuse it if its permission ends meanwhile."""
        opening = Opening(command, accesses, stop)
        self._opening.add(opening)
        try:
            yield opening
            opening.end()
        except BrokerError:
            opening.check()  # a revocation since then is the reason that the client is told
            raise
        finally:
            self._opening.discard(opening)

    def check(self, command: object) -> None:
        """Raise the refusal if the client may no longer open what this command opens."""
        for opening in self._opening:
            if opening.command is command:
                opening.check()

    def opened(self, namespace: str) -> Iterator[Opened]:
        """Yield what the client has open, or is opening, in a namespace."""
        session = self._session
        for producer in session.publishing.producers.values():
            if producer.topic.namespace_name == namespace:
                access = AccessRequest(RequiredPermission.PRODUCE, str(producer.topic))
                yield Opened(access, partial(close_producer, producer))
        for consumer in session.consumers.values():
            topic, name = consumer.subscription.topic_name, consumer.subscription.name
            if topic.namespace_name == namespace:
                access = AccessRequest(RequiredPermission.CONSUME, str(topic), name)
                yield Opened(access, partial(_close_consumer, consumer))
        # promise[session.watchers -> dict(())]: a revocation reaches watched lists of topics
        for number, watcher in session.watchers.items():
            if watcher.namespace == namespace:
                access = AccessRequest(RequiredPermission.PRODUCE_OR_CONSUME, namespace)
                yield Opened(access, partial(_close_watcher, session, number))
        for opening in self._opening:
            # promise[opening.accesses -> ()]: a revocation reaches what is being opened
            for access in opening.accesses:
                if access.namespace == namespace:
                    yield Opened(access, opening.close)


def open_resources_of(session: Session) -> OpenResources:
    """Return the open resources of a session, which are checked again from now on."""
    open_resources = session.open_resources
    if not isinstance(open_resources, OpenResources):
        open_resources = session.open_resources = OpenResources(session)
    if not session.is_over:  # else nothing would remove it again
        session.broker.access.clients.add(open_resources)
    return open_resources


def close_producer(producer: Producer, why: str) -> None:
    """Close a producer, whose client opens it again and is refused; refuse a waiting one."""
    if producer.ready:
        producer.disconnect()
    else:
        producer.turn(NotAuthorized(why))


def _close_consumer(consumer: Consumer, why: str) -> None:
    """Close a consumer, whose client subscribes again and is refused."""
    consumer.disconnect()


def _close_watcher(session: Session, number: int, why: str) -> None:
    """Stop sending changes to a watcher, whose client lists topics now and then and is refused."""
    unwatch(session, number)
