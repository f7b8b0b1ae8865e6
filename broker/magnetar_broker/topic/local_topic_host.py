"""The loaded topics of this process, as the directory of names uses them."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count

from magnetar_broker.authorization.access import Access, rules_of
from magnetar_broker.authorization.rules import Grants
from magnetar_broker.base.durations import Durations
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.base.parallel import for_each
from magnetar_broker.config import Settings
from magnetar_broker.config.changes import allowed_changes, with_changes
from magnetar_broker.limits.shared_limits import shared_limits, shared_rates, unread_total_bytes
from magnetar_broker.limits.topic_limits import topic_limits
from magnetar_broker.names.topic_host import Condition
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR
from magnetar_broker.policies.policy import Subject
from magnetar_broker.policies.view import PolicyView
from magnetar_broker.topic.inactive import Inactive
from magnetar_broker.topic.loaded_topics import AnyTopic, Topics
from magnetar_broker.topic.non_persistent import NonPersistentTopic
from magnetar_broker.topic.topic import Topic
from magnetar_proto.names import TopicName
from magnetar_storage.cursors.cursor_log import CursorLog, read_cursors
from magnetar_storage.errors import StorageError
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.runtime.execution import yield_turn

logger = logging.getLogger(__name__)

TOPICS_A_TURN = 2
"""The topics that each of `WIDTH` workers changes per turn of the loop: a few milliseconds."""


class LocalTopicHost:
    """The `TopicHost` of the one process that serves topics, or of one of several."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        policies: PolicyView,
        new_owner: Callable[[TopicName], str] = lambda name: "",
        part: Callable[[Settings], Settings] = lambda settings: settings,
    ) -> None:
        """`new_owner` returns the URL of the process that serves a topic from now on.

        The URL is blank if that is this process, or is unknown.  `part` makes the settings of this
        process from those of the broker.
        """
        self._of_broker = settings
        self._part = part
        self.settings = settings = part(settings)
        """The settings that are in effect in this process."""
        self.topics = Topics(engine)
        self.access = Access(settings)
        self.loads = Durations(engine.clock)
        """The number and the duration of loads of topics."""
        self.inactive = Inactive(settings, engine.clock, policies, self.topics)
        self._engine = engine
        self._limits = topic_limits(settings)
        self.shared_limits = shared_limits(settings, engine.clock)
        self._policies = policies
        self._new_owner = new_owner
        self._evicted: dict[TopicName, AnyTopic] = {}
        """Evicted topics that are not closed or deleted yet."""
        self._changes = count(1)

    def is_loaded(self, name: TopicName) -> bool:
        return name in self.topics

    def is_in_place(self, name: TopicName) -> bool:
        return name in self.topics

    def loaded(self, namespace: str) -> list[TopicName]:
        return [topic.name for topic in self.topics.of_namespace(namespace)]

    # Loading and unloading -------------------------------------------------------------------

    async def load(self, name: TopicName, create: bool) -> bool:
        began_ms = self.loads.begin()
        try:
            return await self._load(name, create)
        finally:
            self.loads.end(began_ms)

    async def _load(self, name: TopicName, create: bool) -> bool:
        limits, topic = self._limits, await self._open(name, create)
        if topic is not None:
            while limits is not self._limits:  # settings were changed meanwhile
                limits = self._limits
                await topic.settings_changed(limits)
            self.topics.add(topic)
        return topic is not None

    async def _open(self, name: TopicName, create: bool) -> AnyTopic | None:
        engine = self._engine
        if name.is_persistent:
            return await Topic.open(
                name,
                engine,
                create,
                self._limits,
                self.shared_limits,
                self._policies,
                self.topics.drop,
            )
        if create:
            return NonPersistentTopic(
                name, self._limits, self.shared_limits, self._policies, engine.clock, engine.tasks
            )
        return None

    async def evict(self, names: list[TopicName], condition: Condition) -> bool:
        # Check and evict in one step: no other coroutine runs between, and no client can connect.
        loaded = [topic for name in names if (topic := self.topics.get(name)) is not None]
        if not all(self._meets(topic, condition) for topic in loaded):
            return False
        for topic in loaded:
            self.topics.drop(topic)
            # promise[without self._new_owner(topic.name)]: clients of an unloaded topic are told
            #   its new owner
            topic.disconnect(self._new_owner(topic.name))
            self._evicted[topic.name] = topic
        return True

    def _meets(self, topic: AnyTopic, condition: Condition) -> bool:
        match condition:
            case Condition.ANYWAY:
                return True
            case Condition.UNUSED:
                return not topic.in_use
            case Condition.INACTIVE:
                return self.inactive.is_over(topic)

    async def unload(self, name: TopicName) -> None:
        loaded = self.topics.get(name)
        if isinstance(loaded, Topic):
            # promise: a topic is closed only after what was published is answered
            await loaded.finish()
        await self.evict([name], Condition.ANYWAY)
        topic = self._evicted.pop(name, None)
        if topic is not None:
            await topic.close()

    async def erase(self, name: TopicName) -> None:
        await self.evict([name], Condition.ANYWAY)
        topic = self._evicted.pop(name, None)
        if topic is not None:
            await topic.delete()
        if name.is_persistent:
            await Log.remove(topic_key(name), self._engine)

    def held(self) -> list[TopicName]:
        """Return the topics that are loaded, or are evicted and not closed yet."""
        return [*(topic.name for topic in self.topics), *self._evicted]

    async def close_evicted(self) -> None:
        """Close the topics that were evicted and then neither unloaded nor erased."""
        try:
            await for_each(self._engine, list(self._evicted), self.unload)
        except StorageError as error:
            logger.error("topics that were closed recover when they are opened: %s", error)

    # Permissions -----------------------------------------------------------------------------

    async def reauthorize(self, namespace: str, grants: Grants) -> None:
        await self.access.recheck(namespace, grants, partial(yield_turn, self._engine.clock))

    # Policies and settings -------------------------------------------------------------------

    async def apply(self, subject: Subject, partitions: int) -> None:
        # Do this concurrently: some topics write, and share a sync.
        await for_each(self._engine, self._subjects(subject, partitions), self._changed)

    def _subjects(self, subject: Subject, partitions: int) -> list[AnyTopic]:
        """Return the loaded topics to which policies of a subject apply."""
        if isinstance(subject, str):
            return self.topics.of_namespace(subject)
        base = subject.base
        names = [base, *(base.with_partition(index) for index in range(partitions))]
        return [topic for name in names if (topic := self.topics.get(name)) is not None]

    def change_settings(self, changed: Mapping[str, str]) -> None:
        """Apply changed settings, by key, to topics that are loaded from now on."""
        # While a reload restarts the workers, this one may be ahead of the controller.
        allowed, problems = allowed_changes(self._of_broker, changed)
        for problem in problems:
            logger.warning("a setting that was changed earlier is not in effect: %s", problem)
        self.settings = self._part(with_changes(self._of_broker, allowed))
        self._limits = topic_limits(self.settings)
        self.access.rules = rules_of(self.settings)
        self._policies.change_settings(self.settings)
        self.shared_limits.rates.change(*shared_rates(self.settings))
        self.shared_limits.unread.change(unread_total_bytes(self.settings))

    async def configure(self, changed: Mapping[str, str]) -> None:
        self.change_settings(changed)
        try:
            # promise: loaded topics follow a changed setting
            await for_each(self._engine, list(self.topics), self._configured)
        finally:
            self.shared_limits.rates.release()  # promise: a rate that was given up holds nobody up

    async def catch_up(self) -> None:
        """Apply settings and policies that were changed while this process could not be asked.

        Raises `StorageError` if a topic cannot apply them; all others have applied them.
        """
        # promise: what the controller did not have applied before it ended is applied
        await for_each(self._engine, list(self.topics), self._configured)
        self.shared_limits.rates.release()

    async def _configured(self, topic: AnyTopic) -> None:
        await self._apply(topic, partial(topic.settings_changed, self._limits))

    async def _changed(self, topic: AnyTopic) -> None:
        await self._apply(topic, topic.policies_changed)

    async def _apply(self, topic: AnyTopic, change: Callable[[], Awaitable[None]]) -> None:
        try:
            await change()
        except StorageError:
            if self.topics.get(topic.name) is topic:
                raise
            # The topic has ended meanwhile, and applies the policies when it is loaded again.
        if next(self._changes) % TOPICS_A_TURN == 0:
            await yield_turn(self._engine.clock)

    # Subscriptions ---------------------------------------------------------------------------

    async def subscriptions_of(self, name: TopicName) -> list[str]:
        topic = self.topics.get(name)
        if isinstance(topic, Topic):
            found = list(topic.cursors.cursors)
        else:
            stored = await self._engine.metadata.get(topic_key(name))
            if stored is None:
                return []
            segment = LogRecord.decode(topic_key(name), stored.value).cursor_segment
            if segment is None:
                return []
            cursors = await read_cursors(self._engine.store, segment, {})
            found = [cursor.name for cursor in cursors.values()]
        return [name for name in found if name != COMPACTION_CURSOR]

    async def subscribe_unlisted(self, name: TopicName, subscriptions: list[str]) -> None:
        log = await Log.open(topic_key(name), self._engine, create=True)
        assert log is not None
        cursors = await CursorLog.open(log)
        for subscription in subscriptions:
            if subscription not in cursors.cursors:
                await cursors.create(subscription, log.first_offset - 1, {})
        await cursors.close()
        await log.close()
