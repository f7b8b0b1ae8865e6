"""Conversion of places in the options to positions of the broker."""

from magnetar.base.concurrency import gather_all
from pyspark_magnetar.options.places import Place
from pyspark_magnetar.source.entry_search import first_at
from pyspark_magnetar.source.offsets import NOTHING, Position, Start
from pyspark_magnetar.source.view import View


async def starts_of(view: View, wanted: dict[str, tuple[Place, Position]]) -> dict[str, Start]:
    """Return the start of each partition, from its configured position and its last entry."""
    found = await gather_all(
        _start(view, topic, place, last) for topic, (place, last) in wanted.items()
    )
    return dict(zip(wanted, found, strict=True))


async def _start(view: View, topic: str, place: Place, last: Position) -> Start:
    at = place.at
    if isinstance(at, int):
        return await _since(view, topic, at, last)
    if at.is_latest or last == NOTHING:
        return Start(last)
    if at.is_earliest:
        first = await first_at(view, topic)
        return Start(last if first is None else _before(first.position))
    return Start((at.ledger, at.entry - 1), max(at.batch_index, 0))


async def _since(view: View, topic: str, time_ms: int, last: Position) -> Start:
    if last == NOTHING:
        return Start(NOTHING)
    end = await first_at(view, topic, last)
    if end is None or end.stored_time_ms < time_ms:
        return Start(last)  # a reader would wait for later messages
    first = await first_at(view, topic, time_ms)
    return Start(last if first is None else _before(first.position))


def _before(position: Position) -> Position:
    return position[0], position[1] - 1
