"""Aborts messages and acknowledgements that came for a transaction after its end.

A producer that reconnects sends again what was not answered, perhaps after the coordinator has
aborted the transaction.  The topic may not know that: then the transaction seems to be open there,
and readers would wait for its end for ever.  So each process asks the coordinators, now and then,
for the transactions that are open on its topics.  One that its coordinator does not have any more
has ended everywhere before, so what is left of it came too late.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol

from magnetar_broker.base.errors import BrokerError, TransactionCoordinatorNotFound
from magnetar_broker.base.periodic_jobs import PAUSE_EVERY
from magnetar_broker.base.transaction_ids import COORDINATORS, Outcome, TxnId
from magnetar_broker.ipc.successive import SuccessiveLinks
from magnetar_broker.subscriptions.subscription import Subscription
from magnetar_broker.topic.loaded_topics import Topics
from magnetar_broker.topic.topic import Topic
from magnetar_broker.transactions.coordinators import Coordinators
from magnetar_proto.names import MAX_PARTITION, TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.runtime.execution import Clock, yield_turn

logger = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
LEFTOVERS = "looking for what came after the end of a transaction"
ENDED = "transactions.ended"
"""The request to another worker: which transactions of a coordinator there have ended."""


class Ended(Protocol):
    """Returns the transactions of a coordinator that have ended, wherever the coordinator is."""

    async def __call__(self, most: int, leasts: list[int]) -> list[int]:
        """Return the numbers of transactions that the coordinator no longer has."""


async def ended_here(coordinators: Coordinators, most: int, leasts: list[int]) -> list[int]:
    """Return the `leasts` that have ended here; all if the coordinator does not exist."""
    try:
        coordinator = await coordinators.of(most)
    except TransactionCoordinatorNotFound:
        return leasts
    return await coordinator.ended(leasts)


class LinkedEnded:
    """Asks the coordinators of all workers whether transactions have ended."""

    def __init__(
        self,
        here: Ended,
        other: Callable[[TopicName], int | None],
        links: Mapping[int, SuccessiveLinks],
    ) -> None:
        """`other` returns the number of the worker that serves a topic; None for this one."""
        self._here = here
        self._other = other
        self._links = links

    async def __call__(self, most: int, leasts: list[int]) -> list[int]:
        number = self._other(COORDINATORS.with_partition(min(most, MAX_PARTITION)))
        if number is None:
            return await self._here(most, leasts)
        link = await self._links[number].present()
        ended: list[int] = await link.request(ENDED, most, leasts)
        return ended


class Leftovers:
    """Ends what late commands have left of ended transactions, in the topics of one process."""

    def __init__(self, topics: Topics, clock: Clock, ended: Ended) -> None:
        self.ended = ended
        self._topics = topics
        self._clock = clock

    async def look(self) -> None:
        """Abort leftovers of transactions that have ended."""
        held: list[Topic] = []
        asked: dict[int, set[int]] = {}
        for count, topic in enumerate(self._topics, 1):
            if isinstance(topic, Topic) and (found := set(_open_on(topic))):
                held.append(topic)
                for most, least in found:
                    asked.setdefault(most, set()).add(least)
            if count % PAUSE_EVERY == 0:
                await yield_turn(self._clock)
        over: set[tuple[int, int]] = set()
        for most, leasts in asked.items():
            try:
                found_over = await self.ended(most, sorted(leasts))
            except (BrokerError, StorageError) as error:  # it moves: the next round asks again
                logger.info("coordinator %d was not asked: %s", most, error)
                continue
            over.update((most, least) for least in found_over)
        for topic in held:
            # Once more: some may have been ended while the coordinators were asked.
            # promise[_open_on(topic) -> ()]: what comes after the end of a transaction is ended
            for txn in over.intersection(_open_on(topic)):
                await _abort(topic, TxnId(*txn))


def _open_on(topic: Topic) -> Iterator[tuple[int, int]]:
    """Yield the transactions that seem to be open on a topic."""
    yield from topic.transactions.open
    for subscription in topic.subscriptions.values():
        yield from subscription.open_transactions


async def _abort(topic: Topic, txn: TxnId) -> None:
    logger.warning("aborting what %s received after the end of transaction %s", topic.name, txn)
    ends: list[Callable[[TxnId, Outcome, int], Awaitable[None]]] = [topic.end_transaction]
    holding: list[Subscription] = list(topic.subscriptions.values())
    ends += [one.end_transaction for one in holding if txn in one.open_transactions]
    for end in ends:
        try:
            await end(txn, Outcome.ABORT, -1)
        except (BrokerError, StorageError) as error:
            logger.info(
                "transaction %s is not aborted on %s, to be retried: %s", txn, topic.name, error
            )
