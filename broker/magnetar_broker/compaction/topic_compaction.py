"""A topic's compaction: when it runs, how the last one ended, and the cursor that waits for it."""

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from magnetar_broker.compaction.rules import COMPACTION_CURSOR, CompactionRules
from magnetar_broker.errors import BrokerError
from magnetar_broker.subscribing.consumer import Backlog
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadMetadata
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_storage.compacted_log import CompactedLog
from magnetar_storage.cursor_log import CursorLog
from magnetar_storage.errors import StorageError
from magnetar_storage.log import Log
from magnetar_storage.world import Promise

if TYPE_CHECKING:
    from magnetar_broker.compaction.run import CompactionRun

logger = logging.getLogger(__name__)


class CompactionStatus(StrEnum):
    """How the last compaction since the topic was loaded went."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


class Waiting(Protocol):
    """A subscription, as far as how much it waits for."""

    async def backlog(self) -> Backlog:
        """What is not acknowledged."""


class Subscribers(Protocol):
    """A topic's subscriptions."""

    async def create(self, name: str, start: int, properties: dict[str, str]) -> Waiting:
        """A durable subscription that begins at offset `start`; on disk when this returns."""


class CompactedTopic(Protocol):
    """A topic, as its compaction sees it."""

    name: TopicName
    log: Log
    cursors: CursorLog

    @property
    def subscriptions(self) -> Subscribers: ...

    def check_open(self) -> None:
        """`NotReady` once it is being closed."""


@dataclass
class CompactionFigures:
    """Of all compactions since the topic was loaded."""

    succeeded: int = 0
    failed: int = 0
    duration_ms: int = 0
    """Of the last one that succeeded; the same holds for what it left."""
    entries: int = 0
    size: int = 0


class TopicCompaction:
    """Runs one compaction at a time."""

    def __init__(self, topic: CompactedTopic, rules: CompactionRules) -> None:
        self.view = CompactedLog(topic.log)
        self.status = CompactionStatus.NOT_RUN
        self.last_error = ""
        self.figures = CompactionFigures()
        self._topic = topic
        self._rules = rules
        self._threshold = 0
        self._run: CompactionRun | None = None
        self._ended: Promise | None = None  # unsettled while it runs

    # Holding ----------------------------------------------------------------------------

    async def keep_to(self, threshold: int) -> None:
        """Compact when so many bytes wait, 0 for never; they are held from now on."""
        self._threshold = threshold
        if threshold > 0:
            await self._hold()
        await self._release()

    async def _hold(self) -> Waiting:
        """The subscription that waits for compaction; durable on return."""
        start = max(self.view.horizon, self._topic.log.first_offset)
        return await self._topic.subscriptions.create(COMPACTION_CURSOR, start, {})

    async def _release(self) -> None:
        """What lies below the horizon is not held any more."""
        cursor = self._topic.cursors.cursors.get(COMPACTION_CURSOR)
        if cursor is not None and cursor.mark_delete < self.view.horizon - 1:
            cursor.ack_up_to(self.view.horizon - 1)
            self._topic.cursors.changed(cursor)
            await self._topic.cursors.durable()

    # Running ----------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.status is CompactionStatus.RUNNING

    async def start(self) -> bool:
        """Begin to compact; False if that is under way already.

        What is to be compacted is held when this returns; the rest is told by `status`.
        """
        self._topic.check_open()
        if self.is_running:
            return False
        self.status, before = CompactionStatus.RUNNING, self.status
        try:
            await self._hold()
            self._topic.check_open()
        except (BrokerError, StorageError):
            self.status = before
            raise
        self._ended = self._topic.log.engine.clock.promise()
        self._topic.log.engine.tasks.spawn(self._compact())
        return True

    async def check(self) -> None:
        """Begin if so much waits that the threshold is exceeded."""
        if self._threshold > 0 and not self.is_running:
            waiting = await (await self._hold()).backlog()
            if waiting.size > self._threshold:
                await self.start()

    async def _compact(self) -> None:
        from magnetar_broker.compaction.run import CompactionRun  # noqa: PLC0415 (not for the start)

        log, figures = self._topic.log, self.figures
        run = self._run = CompactionRun(log, self.view, self._rules)
        begun_ms = log.engine.clock.now_ms()
        try:
            compacted = await run.run()
            await self._release()
            await log.empty_trash()
        except StorageError as error:
            self.status, self.last_error = CompactionStatus.ERROR, str(error)
            figures.failed += 1
            if log.failed is None:
                logger.warning("%s was not compacted: %s", self._topic.name, error)
        else:
            self.status, self.last_error = CompactionStatus.SUCCESS, ""
            figures.succeeded += 1
            figures.duration_ms = log.engine.clock.now_ms() - begun_ms
            figures.entries, figures.size = compacted.entries, compacted.size
            logger.info(
                "%s was compacted: %d entries of %d bytes are left of %d bytes read twice",
                self._topic.name, compacted.entries, compacted.size, run.bytes_read // 2,
            )  # fmt: skip
        finally:
            if self.is_running:
                self.status, self.last_error = CompactionStatus.ERROR, "a defect: see the log"
            self._run = None
            ended, self._ended = self._ended, None
            if ended is not None:
                ended.set_result(None)

    # Reading ----------------------------------------------------------------------------

    async def last_message_id(self) -> MessageId | None:
        """The last message below the horizon; None if the log has later entries still."""
        if self._topic.log.end > max(self.view.horizon, self._topic.log.first_offset):
            return None
        partition = self._topic.name.partition
        last = await self.view.last()
        if last is None:
            return MessageId(-1, -1, 0, partition)
        return MessageId(last.ledger, last.entries[0], last_index(last.payloads[0]), partition)

    async def offset_at(self, position: MessageId) -> int:
        """The offset of a message or, where there is none any more, of the next one."""
        log = self._topic.log
        if position.is_latest:
            return log.end
        first, _ = log.position(log.first_offset)
        if position.ledger < 0 or (first <= position.ledger and log.segments):
            return log.seek(position.ledger, position.entry) if position.ledger >= 0 else 0
        return await self.view.offset_at(position.ledger, position.entry)

    async def stop(self) -> None:
        """The topic is being closed: end what runs, and give back what is open."""
        if self._run is not None:
            self._run.stop()
        while self._ended is not None:
            await self._ended
        self.view.close()


def last_index(entry: bytes) -> int:
    """The index of the last message of a batch that is left; -1 for what is one message."""
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata:
        return -1
    if metadata.num_messages_in_batch <= 1:
        return -1
    if metadata.compacted_batch_indexes:
        return metadata.compacted_batch_indexes[-1]
    return metadata.num_messages_in_batch - 1
