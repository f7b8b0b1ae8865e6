"""Setting damaged entries aside: they are kept in quarantine, and count as deleted in the log."""

from collections.abc import Sequence

from magnetar_storage.interfaces import DamagedEntries, SegmentId
from magnetar_storage.log.damage import LASTING, Damage
from magnetar_storage.log.log import Log

READ_ENTRIES = 5000
READ_BYTES = 1 << 20
KEPT_BYTES = 64 << 20
"""The approximate bytes of damaged entries in memory on their way to quarantine."""


async def find_damage(log: Log, start: int, stop: int) -> list[Damage]:
    """Read the entries start..stop-1 that the log has; returns the damage found."""
    found: list[Damage] = []
    at, stop = max(start, log.first_offset), min(stop, log.end)
    while at < stop:
        try:
            run = await log.entries.read(at, min(READ_ENTRIES, stop - at), READ_BYTES)
        # Other errors are of the disk or of a process, and may pass: they end the search.
        except LASTING as error:
            at = log.holes.next_missing(max(at, log.first_offset))
            if at < stop:  # else it was deleted meanwhile
                found.append(log.entries.damage_at(at, error))
                at = log.entries.behind_damage(at, error)
            continue
        if not run.payloads:
            break
        at = run.first + len(run.payloads)
    return found


async def check_again(log: Log, damage: Damage) -> list[Damage]:
    """Read the entries of a damaged range again; only damage that is found again stays known."""
    offsets = log.offsets_of(damage.segment, damage.first, damage.last + 1)
    found = await find_damage(log, offsets.start, offsets.stop)
    if damage[:3] not in [one[:3] for one in found]:
        log.engine.damage.forget(damage)
    return found


async def set_aside(log: Log, damage: Sequence[Damage], why: str) -> None:
    """Keep the bytes of damaged entries, and count the entries as deleted; durable on return.

    The log reports them as reclaimed: every cursor then counts them as acknowledged.  Entries that
    were deleted meanwhile are left out.
    """
    damage = [one for one in damage if _is_present(log, one)]
    if not damage:
        return
    await _keep(log, damage, why)
    lost: dict[SegmentId, list[tuple[int, int]]] = {}
    for one in damage:
        lost.setdefault(one.segment, []).append((one.first, one.last + 1))
    # promise: a broker that starts again knows which entries were set aside
    await log.stored_record.commit(lambda record: record.with_lost(lost))
    log.index()
    for one in damage:
        offsets = log.offsets_of(one.segment, one.first, one.last + 1)
        log.holes.add(offsets.start, offsets.stop)
        log.engine.damage.forget(one)
        log.engine.damage.set_aside += one.entries
    log.reclaimed()


def _is_present(log: Log, damage: Damage) -> bool:
    """Return whether the log still has such an entry."""
    offsets = log.offsets_of(damage.segment, damage.first, damage.last + 1)
    return log.holes.next_missing(max(offsets.start, log.first_offset)) < offsets.stop


async def _keep(log: Log, damage: Sequence[Damage], why: str) -> None:
    """Copy the bytes to quarantine, some at a time."""
    kept: list[DamagedEntries] = []
    for one in damage:
        offsets = log.offsets_of(one.segment, one.first, one.last + 1)
        data = await log.entries.stored_bytes(offsets.start, offsets.stop) if offsets else b""
        kept.append(DamagedEntries(one.segment, one.first, one.last, one.why, data, one.log))
        if sum(len(each.data) for each in kept) >= KEPT_BYTES:
            await log.engine.store.keep_damaged(kept, why)
            kept = []
    if kept:
        # promise: the bytes of damaged entries are kept before these count as deleted
        await log.engine.store.keep_damaged(kept, why)
