"""How handlers reach loaded topics: they have operations carried out where a topic is served."""

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
        """Have the owner of a topic carry out an operation; raises what that raises."""

    async def ask_all(
        self, operation: OfProcess[P, R], *args: P.args, **named: P.kwargs
    ) -> list[R]:
        """Have every process carry out an operation; raises what one of them raises."""


class SoleProcess:
    """This process serves all topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def ask(
        self, operation: OfTopic[P, R], topic: TopicName, *args: P.args, **named: P.kwargs
    ) -> R:
        """Call it."""
        return await operation(self._broker, topic, *args, **named)

    async def ask_all(
        self, operation: OfProcess[P, R], *args: P.args, **named: P.kwargs
    ) -> list[R]:
        """Call it."""
        return [await operation(self._broker, *args, **named)]
