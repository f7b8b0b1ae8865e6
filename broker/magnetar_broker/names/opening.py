"""Opens topics on first use, and closes them; one operation at a time for each name."""

from collections.abc import Awaitable, Callable
from functools import partial

from magnetar_broker.base.errors import AlreadyExists, NotReady, TopicNotFound
from magnetar_broker.base.semaphore import Semaphore
from magnetar_broker.names.creation import Creation
from magnetar_broker.names.topic_host import TopicHost
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_broker.placement.ownership import Ownership
from magnetar_proto.names import TopicName
from magnetar_storage.runtime.execution import Clock


class Opening:
    """Opens topics on demand; one per broker."""

    def __init__(
        self,
        clock: Clock,
        creation: Creation,
        ownership: Ownership,
        topic_host: TopicHost,
        locks: TopicLocks,
        loads: int,
    ) -> None:
        """`loads` is the most topics that are opened concurrently; 0 means no limit."""
        self.serving = False
        """Whether topics are opened; False while the broker starts and stops."""
        self._creation = creation
        self._ownership = ownership
        self._topic_host = topic_host
        self._locks = locks
        self._loads = Semaphore(clock, loads)

    async def open(self, name: TopicName, create: bool) -> None:
        """Load a topic, and create it if `create` is set and policies allow it.

        Raises the `BrokerError` that PRODUCER and SUBSCRIBE are answered with.
        """
        await self._creation.deletion.topics.settle(name)
        await self._locked(name, partial(self._open, name, create))

    async def create_non_persistent(self, name: TopicName) -> None:
        """Create a non-persistent topic; `AlreadyExists` if it is loaded."""
        if self._topic_host.is_loaded(name):
            raise AlreadyExists(f"{name} exists: choose another name")
        await self._locked(name, partial(self._create, name))

    async def unload(self, name: TopicName) -> None:
        """Close a topic, if it is loaded; its clients reconnect, which opens it again."""
        async with self._locks.held(name):
            await self._topic_host.unload(name)

    async def move(self, name: TopicName) -> None:
        """Close a topic unless the process that has it loaded still owns its bundle."""
        async with self._locks.held(name):
            if not self._topic_host.is_in_place(name):
                await self._topic_host.unload(name)

    async def stop(self) -> None:
        """Open no further topic; on return topics that were being opened or closed are done."""
        self.serving = False
        await self._locks.settled(lambda name: True)

    async def _locked(self, name: TopicName, opening: Callable[[], Awaitable[None]]) -> None:
        async with self._locks.held(name):
            # promise[is_in_place -> is_loaded]: a topic of a moving bundle is not used where it was
            if self._topic_host.is_in_place(name):
                return
            if not self.serving:
                raise NotReady("the broker is starting or stopping; try again")
            await self._loads.acquire()
            try:
                await opening()
            finally:
                self._loads.release()

    async def _open(self, name: TopicName, create: bool) -> None:
        await self._creation.check_name(name)
        if not await self._ownership.owns(name):
            raise NotReady(f"{name} is not served by this broker: look it up again")
        await self._creation.policies.load(name)
        async with self._creation.by_use(name, create) as may_create:
            if not await self._topic_host.load(name, may_create):
                raise TopicNotFound(
                    f"topic {name} does not exist, and using it does not create it "
                    "(allowAutoTopicCreation): create it first"
                )

    async def _create(self, name: TopicName) -> None:
        await self._creation.check_name(name)
        await self._creation.policies.load(name)
        await self._topic_host.load(name, create=True)
