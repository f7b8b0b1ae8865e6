"""The damage of one topic: known damage, damage ahead of its subscriptions, or all damage."""

from collections.abc import Iterable, Iterator

from magnetar_broker.topic.topic import Topic
from magnetar_storage.interfaces import SegmentId
from magnetar_storage.log.damage import Damage
from magnetar_storage.log.engine import Engine
from magnetar_storage.log.log import Log
from magnetar_storage.log.log_record import LogRecord, Segment
from magnetar_storage.log.setting_aside import check_again, find_damage

Place = tuple[SegmentId, int, int]
"""A segment, and the first and the last of some entries."""
MOST = 1000
"""The most ranges of entries that one call names or sets aside."""


async def damage_of(topic: Topic, whole: bool) -> list[Damage]:
    """Return the damaged entries of a topic, in order; each range has just failed to be read.

    With `whole` all stored entries are read.  Otherwise the result has the damage that readers or
    the scrubber have met since the start, and the damage that each subscription meets next, up to
    the first entry that can be read.
    """
    log = topic.log
    if whole:
        return (await find_damage(log, log.first_offset, log.end))[:MOST]
    found = [
        each
        for segment, base in zip(log.segments, list(log.bases), strict=True)
        for each in await _known_in(log, segment, base)
    ]
    for subscription in list(topic.subscriptions.values()):
        found += await next_damage(log, subscription.next_unacked())
    return _in_order(found)[:MOST]


async def look_at(log: Log, places: Iterable[Place]) -> None:
    """Read entries that another process found damaged, so that this process records the damage."""
    for segment, first, last in places:
        offsets = log.offsets_of(segment, first, last + 1)
        await find_damage(log, offsets.start, offsets.stop)


async def forget_settled(engine: Engine) -> None:
    """Forget damage of entries that any process has since deleted or set aside."""
    for one in engine.damage:
        if one.log:
            found = await engine.metadata.get(one.log)
            record = LogRecord() if found is None else LogRecord.decode(one.log, found.value)
            if _is_settled(one, record):
                engine.damage.forget(one)


def _is_settled(damage: Damage, record: LogRecord) -> bool:
    """Return whether a log no longer needs the damaged entries."""
    for segment in record.segments:
        if segment.id == damage.segment:
            return segment.has_lost(damage.first, damage.last)
    return damage.segment not in record.listed


async def next_damage(log: Log, offset: int) -> list[Damage]:
    """Return the damage from an offset on, up to the first entry that can be read."""
    found: list[Damage] = []
    end = log.visible_end
    while offset < end and len(found) < MOST:
        offset = log.holes.next_missing(max(offset, log.first_offset))
        here = await find_damage(log, offset, min(offset + 1, end))
        if not here:
            break
        found += here
        offset = _stop_of(log, here[0])
    return found


def _stop_of(log: Log, damage: Damage) -> int:
    """Return the offset after a range."""
    return log.offsets_of(damage.segment, damage.first, damage.last + 1).stop


async def _known_in(log: Log, segment: Segment, base: int) -> list[Damage]:
    """Return the damage known in a segment that is still unreadable."""
    known = log.engine.damage.of_segments([segment.id])
    found = [each for one in known for each in await check_again(log, one)]
    for one in tuple(found):
        found += await next_damage(log, _stop_of(log, one))
    if segment.kept_in is not None and log.engine.damage.of_segments([segment.kept_in]):
        # The scrubber names the sparse segment itself, not the ledgers whose entries it has.
        found += await find_damage(log, base, base + (segment.entries or 0))
    return found


def _in_order(found: Iterable[Damage]) -> list[Damage]:
    return sorted({one[:3]: one for one in found}.values())


def segments_of(log: Log) -> Iterator[SegmentId]:
    """Yield the segments of the store with a log's entries, and the segments that clients know."""
    for segment in log.segments:
        yield segment.id
        if segment.kept_in is not None:
            yield segment.kept_in
