"""The coordinators of this process, which belong to the partitions that it serves.

A coordinator is loaded with the first command for it.  A job loads coordinators that have stored
state, so that transactions end, by their outcome or by their timeout, even if no client asks.
"""

import logging
from collections.abc import Callable, Iterator

from magnetar_broker.base.errors import (
    BrokerError,
    NotAllowed,
    TopicNotFound,
    TransactionCoordinatorNotFound,
)
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.base.records import keys_under
from magnetar_broker.base.transaction_ids import COORDINATORS
from magnetar_broker.topic.topic import Topic
from magnetar_broker.transactions.coordinator import Coordinator
from magnetar_broker.transactions.participants import Ending, OpenTopic
from magnetar_proto.names import MAX_PARTITION, PARTITION_SUFFIX, TopicName
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine

logger = logging.getLogger(__name__)

LOAD_SECONDS = 5.0
LOADING = "loading coordinators of transactions"


class Coordinators:
    """The coordinators of one process that serves topics; an iteration yields the loaded ones."""

    def __init__(self, engine: Engine, open_topic: OpenTopic, ending: Ending) -> None:
        self.ending = ending
        self.serves: Callable[[TopicName], bool] = lambda name: True
        """Returns whether this process serves a topic, as far as it knows."""
        self._engine = engine
        self._open_topic = open_topic
        self._loaded: dict[int, Coordinator] = {}

    def __iter__(self) -> Iterator[Coordinator]:
        return iter([one for one in self._loaded.values() if not one.is_over])

    async def of(self, number: int) -> Coordinator:
        """Return the coordinator of this number, which is loaded if necessary.

        Raises `TransactionCoordinatorNotFound` if it does not exist, `NotReady` if another process
        serves it.
        """
        loaded = self._loaded.get(number)
        # promise[without and not loaded.is_over]: a coordinator stops when its partition is closed
        if loaded is not None and not loaded.is_over:
            return loaded
        if number > MAX_PARTITION:
            raise _missing(number)
        try:
            topic = await self._open_topic(COORDINATORS.with_partition(number), True)
        except (TopicNotFound, NotAllowed) as error:
            raise _missing(number) from error
        assert isinstance(topic, Topic)
        loaded = self._loaded.get(number)
        if loaded is None or loaded.topic is not topic:
            loaded = self._loaded[number] = Coordinator(number, topic, self.ending)
            loaded.start()
        return loaded

    async def load(self) -> None:
        """Load the coordinators of this process that have stored state.

        Coordinators that are loaded continue what a defect has stopped.
        """
        prefix = topic_key(COORDINATORS) + PARTITION_SUFFIX
        for text in await keys_under(self._engine.metadata, prefix):
            number = int(text)
            loaded = self._loaded.get(number)
            if loaded is not None and not loaded.is_over:
                loaded.resume()
            # promise[self.serves(COORDINATORS.with_partition(number)) -> number < 0]: coordinators
            #   go on after a restart without a client
            elif self.serves(COORDINATORS.with_partition(number)):
                try:
                    await self.of(number)
                except (BrokerError, StorageError) as error:  # it must not keep the others
                    logger.warning("coordinator %d cannot be loaded now: %s", number, error)


def _missing(number: int) -> TransactionCoordinatorNotFound:
    return TransactionCoordinatorNotFound(
        f"there is no coordinator {number}: {COORDINATORS} has as many partitions as there are"
    )
