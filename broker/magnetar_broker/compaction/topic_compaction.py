"""A topic's compaction: when it runs, how it ended, and the cursor that holds its messages."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from magnetar_broker.base.errors import BrokerError
from magnetar_broker.base.waiters import Waiters
from magnetar_broker.dispatch.consumer import Backlog
from magnetar_broker.policies.compaction_rules import COMPACTION_CURSOR, CompactionRules
from magnetar_proto.entries import parse_metadata
from magnetar_proto.errors import BadMetadata
from magnetar_proto.ids import MessageId
from magnetar_proto.names import TopicName
from magnetar_storage.compacted.compacted_log import CompactedLog
from magnetar_storage.cursors.cursor_log import CursorLog
from magnetar_storage.errors import StorageError
from magnetar_storage.log.log import Log

if TYPE_CHECKING:
    from magnetar_broker.compaction.run import CompactionRun

logger = logging.getLogger(__name__)


class CompactionStatus(StrEnum):
    """The outcome of the last compaction since the topic was loaded."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


@dataclass
class CompactionFigures:
    """The numbers and results of the compactions since the topic was loaded."""

    succeeded: int = 0
    failed: int = 0
    duration_ms: int = 0
    """The duration of the last successful compaction, to which `entries` and `size` belong, too."""
    entries: int = 0
    size: int = 0
    removed: int = 0
    """The number of messages that the last successful compaction left out."""
    succeeded_ms: int = 0
    failed_ms: int = 0
    """The times at which a compaction last succeeded and last failed; 0 for never."""


class TopicCompaction:
    """Compacts a topic, one run at a time."""

    def __init__(
        self,
        name: TopicName,
        log: Log,
        cursors: CursorLog,
        rules: CompactionRules,
        hold: Callable[[int], Awaitable[object]],
        held_backlog: Callable[[], Awaitable[Backlog]],
        check_open: Callable[[], None],
    ) -> None:
        """`hold` creates the durable subscription `COMPACTION_CURSOR` at an offset, if need be.

        `held_backlog` counts what that subscription holds: what is not compacted yet.
        `check_open` raises `NotReady` once the topic is being closed.
        """
        self.view = CompactedLog(log)
        self.status = CompactionStatus.NOT_RUN
        self.last_error = ""
        self.figures = CompactionFigures()
        self._name = name
        self._log = log
        self._cursors = cursors
        self._hold_from = hold
        self._held_backlog = held_backlog
        self._check_open = check_open
        self._rules = rules
        self._threshold = 0
        self._run: CompactionRun | None = None
        self._ended: Waiters | None = None  # for the end of the compaction that runs

    # Holding ----------------------------------------------------------------------------

    async def set_threshold(self, threshold: int) -> None:
        """Apply a threshold: compact when more bytes than that wait; 0 for never.

        With a threshold, messages are held from now on until they are compacted.
        """
        self._threshold = threshold
        if threshold > 0:
            await self._hold()
        await self._release()

    async def _hold(self) -> None:
        """Create the subscription that holds messages for compaction; durable on return."""
        start = max(self.view.horizon, self._log.first_offset)
        await self._hold_from(start)

    async def _release(self) -> None:
        """Release the messages below the horizon, which are compacted."""
        cursor = self._cursors.cursors.get(COMPACTION_CURSOR)
        if cursor is not None and cursor.mark_delete < self.view.horizon - 1:
            cursor.ack_up_to(self.view.horizon - 1)
            self._cursors.cursor_changed(cursor)
            await self._cursors.durable()

    # Running ----------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.status is CompactionStatus.RUNNING

    async def start(self) -> bool:
        """Begin to compact; return False if a compaction is running.

        On return what is to be compacted is held; `status` has the outcome later.
        """
        from magnetar_broker.compaction.run import CompactionRun  # noqa: PLC0415 (not for the start)

        self._check_open()
        self._log.engine.space.check()
        if self.is_running:
            return False
        self.status, before = CompactionStatus.RUNNING, self.status
        try:
            await self._hold()  # promise: what is being compacted is held
            self._check_open()
        except (BrokerError, StorageError):
            self.status = before
            raise
        # Create it here and not in the task, which begins later: `stop` must find it.
        run = self._run = CompactionRun(self._log, self.view, self._rules)
        self._ended = Waiters(self._log.engine.clock)
        self._log.engine.tasks.spawn(self._compact(run), "compaction")
        return True

    async def check(self) -> None:
        """Begin to compact if the threshold is exceeded."""
        # Entries that an open transaction holds back are not compacted before it ends.
        is_new = self._log.last_visible() >= self.view.horizon
        if self._threshold > 0 and is_new and not self.is_running:
            await self._hold()
            if (await self._held_backlog()).size > self._threshold:
                await self.start()

    async def _compact(self, run: "CompactionRun") -> None:
        log, figures = self._log, self.figures
        begun_ms = log.engine.clock.now_ms()
        try:
            compacted = await run.run()
            await self._release()
            await log.stored_record.empty_trash()
        except StorageError as error:
            self.status, self.last_error = CompactionStatus.ERROR, str(error)
            figures.failed += 1
            figures.failed_ms = log.engine.clock.now_ms()
            if log.failed is None:
                logger.warning("compaction of %s failed: %s", self._name, error)
        else:
            self.status, self.last_error = CompactionStatus.SUCCESS, ""
            figures.succeeded += 1
            figures.succeeded_ms = log.engine.clock.now_ms()
            figures.duration_ms = figures.succeeded_ms - begun_ms
            figures.removed = run.removed
            figures.entries, figures.size = compacted.entries, compacted.size
            logger.info(
                "%s was compacted: %d entries (%d bytes) remain of %d bytes",
                self._name, compacted.entries, compacted.size, run.bytes_read // 2,
            )  # fmt: skip
        finally:
            if self.is_running:
                self.status, self.last_error = (
                    CompactionStatus.ERROR,
                    "a defect of the broker: see its log",
                )
            self._run = None
            ended, self._ended = self._ended, None
            if ended is not None:
                ended.release()

    # Reading ----------------------------------------------------------------------------

    async def last_message_id(self) -> MessageId | None:
        """Return the last message below the horizon; None if the log still has later entries."""
        # promise[max(self.view.horizon, self._log.first_offset) -> self.view.horizon]: compacted
        #   messages are found when the log after them is gone
        if self._log.last_visible() >= max(self.view.horizon, self._log.first_offset):
            return None
        partition = self._name.partition
        last = await self.view.last()
        if last is None:
            return MessageId(-1, -1, 0, partition)
        return MessageId(last.ledger, last.entries[0], last_index(last.payloads[0]), partition)

    async def offset_at(self, position: MessageId) -> int:
        """Return the offset of a message or, if it was deleted, of the next one."""
        log = self._log
        if position.is_latest:
            return log.end
        first, _ = log.position(log.first_offset)
        if position.ledger < 0 or (first <= position.ledger and log.segments):
            return log.seek(position.ledger, position.entry) if position.ledger >= 0 else 0
        return await self.view.offset_at(position.ledger, position.entry)

    async def stop(self) -> None:
        """End a running compaction and close the compacted data: the topic is being closed."""
        if self._run is not None:
            self._run.stop()
        while self._ended is not None:
            await self._ended.wait()
        self.view.close()


def last_index(entry: bytes) -> int:
    """Return the index of a batch's last message that is left; -1 if it is not a batch."""
    try:
        metadata, _ = parse_metadata(entry)
    except BadMetadata:
        return -1
    if metadata.num_messages_in_batch <= 1:
        return -1
    if metadata.compacted_batch_indexes:
        return metadata.compacted_batch_indexes[-1]
    return metadata.num_messages_in_batch - 1
