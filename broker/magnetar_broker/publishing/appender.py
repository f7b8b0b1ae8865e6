"""What is published to a topic, on its way into the log."""

from functools import partial
from typing import Protocol

from magnetar_broker.delays import TopicDelays
from magnetar_broker.publishing.deduplication import Deduplication
from magnetar_broker.publishing.producer import Sends
from magnetar_storage.cursor_log import CursorLog
from magnetar_storage.errors import StorageError
from magnetar_storage.log import Log


class AppendedTopic(Protocol):
    """A topic, as far as it is published to."""

    log: Log
    cursors: CursorLog
    delays: TopicDelays
    deduplication: Deduplication
    messages_in: int
    bytes_in: int

    def wake_soon(self) -> None:
        """There is something new to be delivered."""

    def drop(self, error: BaseException) -> None:
        """The log failed."""


class Appender:
    """Appends runs in the order in which they come, and answers them when they are durable."""

    __slots__ = ("_held", "_topic", "ended")

    def __init__(self, topic: AppendedTopic) -> None:
        self._topic = topic
        self._held: list[Sends] | None = []
        """Until the log has a segment, which it gets with the first run; None from then on."""
        self.ended = topic.log.terminated
        """What is published is dropped: the topic is terminated, or just about to be."""

    def append(self, sends: Sends) -> None:
        """Take a run; it is answered when it is durable, or has failed."""
        if self._held is not None:
            self._hold(sends)
        else:
            self._store(sends)

    def end(self) -> None:
        """Append nothing more: what waits is answered without receipts."""
        self.ended = True
        for sends in self._take_held():
            sends.answer(b"")

    # Until the log has a segment -----------------------------------------------------------

    def _hold(self, sends: Sends) -> None:
        log = self._topic.log
        if self.ended:
            sends.answer(b"")
        elif self._held:
            self._held.append(sends)
        elif log.is_writing:
            self._held = None
            self._store(sends)
        else:
            self._held = [sends]
            log.engine.tasks.spawn(self._start_writing())

    async def _start_writing(self) -> None:
        """Give the log its segment, then append what is held: until then a topic with producers
        has cost no files and no writes."""
        log = self._topic.log
        try:
            await log.start_writing()
        except StorageError as error:
            for sends in self._take_held():
                self._appended(sends, error)
            if not log.terminated:
                await log.close()
        else:
            held, self._held = self._held, [] if self.ended else None
            for sends in held or ():
                self._store(sends)

    def _take_held(self) -> list[Sends]:
        held, self._held = self._held, []
        return held or []

    # Into the log --------------------------------------------------------------------------

    def _store(self, sends: Sends) -> None:
        deduplication = self._topic.deduplication
        if deduplication.on:
            for part in deduplication.sort(sends):
                self._append(part)
        else:
            self._append(sends)

    def _append(self, sends: Sends) -> None:
        topic = self._topic
        try:
            sends.ledger, sends.first_entry = topic.log.append(
                sends.payloads, sends.counts, partial(self._appended, sends)
            )
        except StorageError as error:
            self._appended(sends, error)
        else:
            topic.cursors.go_along()

    def _appended(self, sends: Sends, error: BaseException | None) -> None:
        topic = self._topic
        if error is not None:
            topic.drop(error)
            sends.answer(b"")
            return
        if sends.delayed:
            topic.delays.note(topic.log.end - len(sends.payloads), sends.payloads)
        sends.answer(sends.receipts())
        if topic.deduplication.watching:
            topic.deduplication.stored(sends)
        topic.messages_in += sum(sends.counts)
        topic.bytes_in += sends.size
        topic.wake_soon()
