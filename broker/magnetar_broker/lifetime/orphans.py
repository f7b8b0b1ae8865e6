"""Segments that no log or cursor lists: left by a crash before they were listed."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from magnetar_broker.base.metadata_keys import TOPICS, topics_of
from magnetar_broker.base.parallel import for_each
from magnetar_proto.names import SYSTEM_NAMESPACE
from magnetar_storage.cursors.cursor_log import read_cursors
from magnetar_storage.errors import Corrupt, NoSegment, StorageError
from magnetar_storage.interfaces import SegmentId, SegmentStore
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import NEW_VALUE
from magnetar_storage.log.log_record import LogRecord

logger = logging.getLogger(__name__)

PAGE = 1000


async def present_segments(engine: Engine) -> set[SegmentId]:
    """The segments that this process may sweep; to be called before topics are opened."""
    return {segment async for segment in engine.store.segments()}


async def sweep(engine: Engine, candidates: set[SegmentId]) -> list[SegmentId]:
    """Delete those candidates that no log lists and that hold nothing needed; returns the others.

    Not needed are empty segments, and cursor segments while every log has its own: a crash
    interrupted their replacement.  No other segment is deleted, since metadata that was restored
    from an old copy lists too few.  Safe while logs are in use: a segment that existed before
    this process started serving is never listed later.
    """
    unlisted, cursors = await _look_up(engine, candidates)
    if not unlisted:
        return []
    complete = await _have_their_cursors(engine, cursors)
    kept = []
    for segment in sorted(unlisted):
        with suppress(NoSegment):  # then a log has deleted it meanwhile
            if await _is_needless(engine.store, segment, complete):
                await engine.store.delete(segment)
            else:
                kept.append(segment)
    return kept


async def _look_up(
    engine: Engine, candidates: set[SegmentId]
) -> tuple[set[SegmentId], dict[str, SegmentId]]:
    """The candidates that no log lists, and, if there are any, the cursor segments of all logs.

    These by the keys of the logs.
    """
    unlisted, cursors = set(candidates), dict[str, SegmentId]()

    async def look(key: str) -> None:
        record = await _record_of(engine, key)
        if record is not None:
            unlisted.difference_update(record.listed)
            if record.cursor_segment is not None:
                cursors[key] = record.cursor_segment

    # The broker's own topics first: every health check leaves segments of one.  Mostly every
    # segment is listed: then the records behind the last one are not read.
    for prefix in (topics_of(SYSTEM_NAMESPACE, "persistent"), TOPICS):
        after = ""
        while unlisted and (keys := await engine.metadata.list(prefix, after, PAGE)):
            # Many at a time: the store reads those in one job.
            await for_each(engine, keys, look)
            after = keys[-1]
    return unlisted, cursors


async def _record_of(engine: Engine, key: str) -> LogRecord | None:
    """A log's record; None if it lists nothing yet, or was deleted."""
    found = await engine.metadata.get(key)
    if found is None or found.value == NEW_VALUE:
        return None
    return LogRecord.decode(key, found.value)


async def _have_their_cursors(engine: Engine, cursors: Mapping[str, SegmentId]) -> bool:
    """Whether there are the cursor segments that logs list.

    Logs in use replace theirs: one that is missing may be listed no more since it was looked up.
    """
    while missing := set(await engine.store.missing(cursors.values())):
        listed: dict[str, SegmentId] = {}
        for key in [key for key, segment in cursors.items() if segment in missing]:
            record = await _record_of(engine, key)
            if record is not None and record.cursor_segment is not None:
                if record.cursor_segment == cursors[key]:
                    return False
                listed[key] = record.cursor_segment
        cursors = listed
    return True


async def _is_needless(store: SegmentStore, segment: SegmentId, cursors_complete: bool) -> bool:
    if (await store.recover(segment)).entries == 0:
        return True
    if cursors_complete:
        with suppress(Corrupt):  # then it holds something else
            await read_cursors(store, segment, {})
            return True
    return False


async def sweep_and_log(
    engine: Engine, candidates: set[SegmentId], stopped: Callable[[], bool]
) -> None:
    """`sweep`, and log what is kept; an error of storage is logged and the next start retries.

    After `stopped` the stores may be closed while it runs, which ends it without a word.
    """
    try:
        kept = await sweep(engine, candidates)
    except StorageError as error:
        if not stopped():
            logger.warning(
                "cannot look for orphaned segments, will retry at the next start: %s", error
            )
        return
    if kept:
        logger.warning(
            "no topic lists segments %s; they are kept: if metadata.db is not an old copy, "
            "nothing needs them",
            ", ".join(map(str, kept)),
        )
