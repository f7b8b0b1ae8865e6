"""What one client has open and is opening, and how it is closed when it may not be open any more.

`authorization/access.py` asks for it when permissions change.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from magnetar_broker.authorization.access import Opened
from magnetar_broker.authorization.rules import Need, Question
from magnetar_broker.base.errors import BrokerError, NotAuthorized
from magnetar_broker.dispatch.consumer import Consumer
from magnetar_broker.publishing.producer import Producer
from magnetar_broker.session.session import Session
from magnetar_broker.session.topic_lists import unwatch


class Opening:
    """A command that opens something and is not answered yet."""

    def __init__(
        self, command: object, questions: list[Question], stop: Callable[[], None]
    ) -> None:
        self.command = command
        self.questions = questions
        self._stop = stop
        self._why: str | None = None

    def close(self, why: str) -> None:
        """Have it refused, for this reason."""
        self._why = why
        self._stop()

    def check(self) -> None:
        """Raise the refusal if it was closed."""
        if self._why is not None:
            raise NotAuthorized(self._why)

    def end(self) -> None:
        """It was answered: what it has opened since it was closed is closed now."""
        if self._why is not None:
            self._stop()


class Guard:
    """What one client has open, for `Access`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._opening: set[Opening] = set()

    @property
    def roles(self) -> tuple[str, ...]:
        """Each of them must be allowed; empty if none was authenticated."""
        roles = self._session.roles
        return () if roles is None else roles.all

    @contextmanager
    def opening(
        self, command: object, questions: list[Question], stop: Callable[[], None]
    ) -> Iterator[Opening]:
        """Within it, a command opens something; if it may not any more, it is refused."""
        opening = Opening(command, questions, stop)
        self._opening.add(opening)
        try:
            yield opening
            opening.end()
        except BrokerError:
            opening.check()
            raise
        finally:
            self._opening.discard(opening)

    def check(self, command: object) -> None:
        """Raise the refusal if what this command opens may not be opened any more."""
        for opening in self._opening:
            if opening.command is command:
                opening.check()

    def opened(self, namespace: str) -> Iterator[Opened]:
        """What it has open, or is opening, in a namespace."""
        session = self._session
        for producer in session.publishing.producers.values():
            if producer.topic.namespace_name == namespace:
                question = Question(Need.PRODUCE, str(producer.topic))
                yield Opened(question, partial(close_producer, producer))
        for consumer in session.consumers.values():
            topic, name = consumer.subscription.topic_name, consumer.subscription.name
            if topic.namespace_name == namespace:
                question = Question(Need.CONSUME, str(topic), name)
                yield Opened(question, partial(_close_consumer, consumer))
        # promise[session.watchers -> dict(())]: a revocation reaches watched lists of topics
        for number, watcher in session.watchers.items():
            if watcher.namespace == namespace:
                question = Question(Need.PRODUCE_OR_CONSUME, namespace)
                yield Opened(question, partial(_close_watcher, session, number))
        for opening in self._opening:
            # promise[opening.questions -> ()]: a revocation reaches what is being opened
            for question in opening.questions:
                if question.namespace == namespace:
                    yield Opened(question, opening.close)


def guard_of(session: Session) -> Guard:
    """The guard of a session, which is checked again from now on."""
    guard = session.guard
    if not isinstance(guard, Guard):
        guard = session.guard = Guard(session)
    if not session.is_over:
        session.broker.access.clients.add(guard)
    return guard


def close_producer(producer: Producer, why: str) -> None:
    """Its client opens it again, and is refused; one that waits for its turn is refused now."""
    if producer.ready:
        producer.disconnect()
    else:
        producer.turn(NotAuthorized(why))


def _close_consumer(consumer: Consumer, why: str) -> None:
    """Its client subscribes again, and is refused."""
    consumer.disconnect()


def _close_watcher(session: Session, number: int, why: str) -> None:
    """Its client is sent nothing any more; it lists topics from time to time, and is refused."""
    unwatch(session, number)
