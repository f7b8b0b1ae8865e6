"""Setting damaged entries aside: on request, or as they are found, if the setting says so."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from magnetar_broker.base.errors import NotReady
from magnetar_broker.base.periodic_jobs import each
from magnetar_broker.config import Settings
from magnetar_broker.config.domains import DamagedEntries
from magnetar_broker.damage.looking import damage_of, forget_settled, segments_of
from magnetar_broker.topic.loaded_topics import AnyTopic
from magnetar_broker.topic.topic import Topic
from magnetar_storage.errors import StorageError
from magnetar_storage.log.damage import Damage
from magnetar_storage.log.engine import Engine
from magnetar_storage.runtime.mutex import Mutex

logger = logging.getLogger(__name__)

SKIPPING, SKIP_SECONDS = "setting damaged entries aside", 60
REQUESTED = "skip-damaged was requested"
BY_SETTING = "magnetarDamagedEntries=skip"
FAILURE = "damaged entries of %s stay for now, trying again later: %s"


async def skip_damaged(topic: Topic, whole: bool, why: str) -> list[Damage]:
    """Set the damaged entries of a topic aside (`damage_of`); durable on return.

    From then on all subscriptions and readers skip them.  Returns the entries that were set aside.
    """
    topic.check_open()
    found = await damage_of(topic, whole)
    if found:
        await topic.set_aside(found, why)
        for one in found:
            # promise[logger.warning -> logger.debug]: entries that are set aside are logged
            logger.warning("set aside, with a copy in quarantine (%s): %s", why, one)
    return found


class Skipping:
    """Sets damaged entries aside when they are found, if so configured; one per serving process."""

    def __init__(
        self, settings: Settings, engine: Engine, topics: Callable[[], Iterator[AnyTopic]]
    ) -> None:
        self._engine = engine
        self._topics = topics
        self._turn = Mutex(engine.clock)
        self._is_due = False
        self._is_on = settings.magnetar_damaged_entries is DamagedEntries.SKIP
        if self._is_on:
            engine.damage.on_found = self._found

    def _found(self, damage: Damage) -> None:
        if not self._is_due:
            self._is_due = True
            self._engine.tasks.spawn(self._look_now())

    async def _look_now(self) -> None:
        try:
            await self.look()
        except StorageError as error:
            logger.warning("damaged entries stay for now, trying again later: %s", error)

    async def look(self) -> None:
        """Set aside the known damage of loaded topics if the setting says so.

        Damage that others have set aside or deleted is forgotten in any case.
        """
        async with self._turn.held():
            self._is_due = False
            await forget_settled(self._engine)
            if self._is_on and len(self._engine.damage):
                await each(self._engine.clock, self._damaged(), self._skip, FAILURE)

    def _damaged(self) -> Iterator[Topic]:
        known = self._engine.damage
        for topic in self._topics():
            if not isinstance(topic, Topic) or topic.closed:
                continue
            if known.of_segments(set(segments_of(topic.log))):
                yield topic

    async def _skip(self, topic: Topic) -> None:
        with suppress(NotReady):  # it is being unloaded: its next owner does it
            await skip_damaged(topic, whole=False, why=BY_SETTING)
