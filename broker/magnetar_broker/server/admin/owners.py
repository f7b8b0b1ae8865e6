"""The access of handlers to loaded topics: operations run in the process that serves a topic."""

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from magnetar_broker.broker import Broker
from magnetar_proto.names import TopicName

P = ParamSpec("P")
R = TypeVar("R")
OfTopic = Callable[Concatenate[Broker, TopicName, P], Awaitable[R]]
"""An operation on a topic, in `operations/`."""
OfProcess = Callable[Concatenate[Broker, P], Awaitable[R]]
"""An operation on all topics that a process serves."""


class Owners(Protocol):
    """The processes that serve topics."""

    async def ask(
        self, operation: OfTopic[P, R], topic: TopicName, *args: P.args, **named: P.kwargs
    ) -> R:
        """Run an operation in the process that serves a topic; raises the operation's errors."""

    async def ask_all(
        self, operation: OfProcess[P, R], *args: P.args, **named: P.kwargs
    ) -> list[R]:
        """Run an operation in every process; raises the error of a process in which it fails."""


class SoleProcess:
    """The `Owners` of a broker that is one process, which serves all topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def ask(
        self, operation: OfTopic[P, R], topic: TopicName, *args: P.args, **named: P.kwargs
    ) -> R:
        """Run the operation in this process."""
        return await operation(self._broker, topic, *args, **named)

    async def ask_all(
        self, operation: OfProcess[P, R], *args: P.args, **named: P.kwargs
    ) -> list[R]:
        """Run the operation in this process."""
        return [await operation(self._broker, *args, **named)]
