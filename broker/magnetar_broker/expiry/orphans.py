"""Orphaned segments, which no log lists: a crash left them unlisted, or the catalogue is wrong.

The two cases cannot be told apart from here, so orphans are moved to quarantine, and deleted much
later.
"""

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TypeVar

from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.base.metadata_keys import TOPICS, topic_of, topics_of
from magnetar_broker.base.parallel import for_each
from magnetar_proto.names import SYSTEM_NAMESPACE
from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.interfaces import Sealed, SegmentId
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log_record import LogRecord, is_unused

logger = logging.getLogger(__name__)

T = TypeVar("T", SegmentId, str)

RECORDS = 50
"""The records that are decoded before the rest of the broker gets a turn."""
NAMED = 10
"""The most segments or topics that one line of the log names."""
WHY = "no topic lists these segments"
EXPIRY, EXPIRY_SECONDS = "emptying of the quarantine", 600


async def present_segments(engine: Engine) -> set[SegmentId]:
    """Return the segments that this process may sweep; call it before topics are opened."""
    return {segment async for segment in engine.store.segments()}


async def sweep(engine: Engine, candidates: set[SegmentId]) -> dict[SegmentId, Sealed]:
    """Move the candidates that no log lists to quarantine, and return them.

    Safe while logs are in use: the candidates are of processes that have ended (`segments`), or of
    this one before it has served a topic, so none is listed later.  What a record may list that
    cannot be read stays, until a start can read it.
    """
    unlisted, unreadable = await _unlisted(engine, candidates)
    if unreadable:
        logger.warning(
            "the metadata records of %s cannot be read: segments that they may list stay where "
            "they are, and the next start looks again",
            _named([topic_of(key) for key in unreadable]),
        )
        unlisted = await _of_others(engine, unlisted, unreadable)
    return await engine.store.set_aside(sorted(unlisted), WHY) if unlisted else {}


async def _unlisted(engine: Engine, candidates: set[SegmentId]) -> tuple[set[SegmentId], set[str]]:
    """Return the candidates that no readable record lists, and the keys of damaged records."""
    unlisted, unreadable = set(candidates), set[str]()

    # Begin with the broker's own topics: every health check leaves segments of one.  Mostly every
    # segment is listed: then the records after the last one are not read.
    for prefix in (topics_of(SYSTEM_NAMESPACE, "persistent"), TOPICS):
        after = ""
        while unlisted and (page := await engine.metadata.read_under(prefix, after, RECORDS)):
            for key, found in page:
                if isinstance(found, Corrupt):
                    unreadable.add(key)
                elif not is_unused(found.value):
                    try:
                        unlisted.difference_update(LogRecord.decode(key, found.value).listed)
                    except Corrupt:
                        unreadable.add(key)
            after = page[-1][0]
    return unlisted, unreadable


async def _of_others(engine: Engine, segments: set[SegmentId], logs: set[str]) -> set[SegmentId]:
    """Return the segments that belong to none of these logs, because they name another."""
    others: set[SegmentId] = set()

    async def look(segment: SegmentId) -> None:
        with suppress(NoSegment, Corrupt):  # its log is unknown
            origin = await engine.store.origin(segment)
            if origin is not None and origin.log not in logs:
                others.add(segment)

    await for_each(engine, segments, look)
    return others


class Quarantine:
    """Fills and empties the quarantine of one process."""

    def __init__(self, engine: Engine, minutes: int, clock_watch: ClockWatch) -> None:
        """Keep segments in quarantine for `minutes`; for ever if it is negative."""
        self._engine = engine
        self._minutes = minutes
        self._clock_watch = clock_watch

    async def fill(self, candidates: set[SegmentId], stopped: Callable[[], bool]) -> None:
        """Call `sweep`, and log what is moved.

        An error of storage is logged, and the next start retries.  After `stopped` the stores may
        be closed while this runs, which ends it silently.
        """
        try:
            moved = await sweep(self._engine, candidates)
        except StorageError as error:
            if not stopped():
                logger.warning(
                    "cannot look for segments that no topic lists, will retry at the next start: "
                    "%s", error,
                )  # fmt: skip
            return
        # A crash leaves empty segments and cursors: those are written before they are listed.
        filled = [segment for segment, end in moved.items() if end.messages]
        if filled:
            logger.warning(
                "no topic lists segments %s, which have messages: they are in quarantine, %s; if "
                "metadata.db is a wrong or an old copy, stop the broker and put the right one in "
                "its place: the topics then take their segments back",
                _named(filled), self._until(),
            )  # fmt: skip
        elif moved:
            logger.info(
                "segments %s, without messages and listed nowhere, are in quarantine, %s",
                _named(moved), self._until(),
            )  # fmt: skip

    async def expire(self) -> None:
        """Delete files that have been in quarantine for long enough."""
        if self._minutes < 0:
            return
        before_ms = self._clock_watch.now_ms() - self._minutes * 60_000
        expired = await self._engine.store.delete_set_aside(before_ms)
        if expired:
            logger.info(
                "deleted segments %s, which were in quarantine for %d minutes "
                "(magnetarQuarantineMinutes)",
                _named(expired), self._minutes,
            )  # fmt: skip

    def _until(self) -> str:
        if self._minutes < 0:
            return "where they stay (magnetarQuarantineMinutes)"
        return f"and will be deleted in {self._minutes} minutes (magnetarQuarantineMinutes)"


def _named(things: Collection[T]) -> str:
    some = ", ".join(map(str, sorted(things)[:NAMED]))
    return some if len(things) <= NAMED else f"{some} and {len(things) - NAMED} more"
