"""The participants of a transaction, in any process: they are told that the transaction ends."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from magnetar_broker.base.errors import (
    NamespaceClosed,
    NamespaceNotFound,
    NotAllowed,
    TenantNotFound,
    TopicNotFound,
)
from magnetar_broker.base.transaction_ids import Outcome, TxnId
from magnetar_broker.ipc.link import Handler
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.topic import Topic
from magnetar_broker.transactions.records import Participant
from magnetar_proto.names import TopicName

OpenTopic = Callable[[TopicName, bool], Awaitable[AnyTopic]]
"""Loads a topic in this process, and creates it if the flag is set; see `Broker.topic`."""
END = "transactions.end"
"""The request to another worker: the end of a transaction at a topic or subscription there."""


class Ending(Protocol):
    """Ends a transaction at its participants."""

    async def end(
        self, part: Participant, txn: TxnId, outcome: Outcome, low_watermark: int
    ) -> None:
        """End a transaction at a participant; durable on return, and safe to repeat.

        All transactions of the coordinator up to `low_watermark` have ended.  A participant that
        does not exist any more needs no end.
        """


class LocalEnding:
    """Ends transactions at topics of this process."""

    def __init__(self, open_topic: OpenTopic) -> None:
        self._open_topic = open_topic

    async def end(
        self, part: Participant, txn: TxnId, outcome: Outcome, low_watermark: int
    ) -> None:
        try:
            topic = await self._open_topic(TopicName.parse(part.topic), False)
        except NamespaceClosed:
            raise  # its deletion may be refused: what it has must end then
        except (TopicNotFound, NamespaceNotFound, TenantNotFound, NotAllowed):
            return  # it was deleted meanwhile, or cannot be opened under this name
        assert isinstance(topic, Topic)  # others are refused when they are added
        if part.subscription is None:
            await topic.end_transaction(txn, outcome, low_watermark)
        elif (subscription := topic.subscriptions.get(part.subscription)) is not None:
            await subscription.end_transaction(txn, outcome, low_watermark)


class LinkedEnding:
    """Ends transactions at topics of all workers of the broker."""

    def __init__(
        self,
        local: LocalEnding,
        other: Callable[[TopicName], int | None],
        links: Mapping[int, SuccessiveLinks],
    ) -> None:
        """`other` returns the number of the worker that serves a topic; None for this one."""
        self._local = local
        self._other = other
        self._links = links

    async def end(
        self, part: Participant, txn: TxnId, outcome: Outcome, low_watermark: int
    ) -> None:
        # The worker may no longer be the owner: then it refuses, and the request is repeated.
        number = self._other(TopicName.parse(part.topic))
        if number is None:
            await self._local.end(part, txn, outcome, low_watermark)
            return
        link = await self._links[number].present()
        await link.request(END, *part, *txn, outcome.value, low_watermark)


def serving(local: LocalEnding) -> Mapping[str, Handler]:
    """Return the handlers of requests that other workers send to this one."""

    async def end(
        topic: str, subscription: str | None, most: int, least: int, outcome: int, low: int
    ) -> None:
        await local.end(Participant(topic, subscription), TxnId(most, least), Outcome(outcome), low)

    return {END: end}
