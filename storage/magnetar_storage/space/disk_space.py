"""The free space of the disk: measured by a timer, and known to all code that takes space.

Below the limit of free space, or after a write found the disk full, messages and topics are refused
until there is enough space again.  Work that frees space continues, and may use the reserves.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from magnetar_storage.errors import DiskLow
from magnetar_storage.runtime.disk import Disk, Space
from magnetar_storage.runtime.execution import Clock, Timer, Worker
from magnetar_storage.space.free_limit import FreeLimit, named_bytes, reserve_bytes, resumed_at
from magnetar_storage.space.reserve import Reserve

LOOK_SECONDS: Final = 1.0
LOOKED_AFTER_PART: Final = 8
"""The fraction of the limit, 1/8, after which bytes written trigger a measurement at once."""

LEAST_RESERVED: Final = 16 << 10
"""The least that a stop sets aside, if possible: a start on a full disk needs some blocks."""
SPARED: Final = 4
"""Work that frees space may use bytes while this multiple of them is free."""

LOW_TEXT: Final = (
    "the disk of {path} has {free} free, less than the {limit} that are to stay free "
    "(magnetarDiskFreeLimit), so nothing can be published and no topic created: consume, expire or "
    "delete messages, remove other files, or enlarge the disk"
)
RESUMING_TEXT: Final = (
    "the disk of {path} has {free} free, and with {needed} publishing and the creation of topics "
    "go on (magnetarDiskFreeLimit): consume, expire or delete messages, remove other files, or "
    "enlarge the disk"
)
NO_ROOM_TEXT: Final = (
    "there was no room to write to {path} although its disk has {free} free, so nothing can be "
    "published and no topic created: look at quotas, free inodes (df -i) and the limit of file "
    "sizes (ulimit -f)"
)


class SpaceFigures(NamedTuple):
    """The results of the last measurement, in bytes."""

    free: int
    size: int
    limit: int
    reserved: int
    is_low: bool


class SpaceState:
    """Whether the disk has room, for all code that uses space; assumed until measured."""

    def __init__(self) -> None:
        self.refusal: DiskLow | None = None
        """The error with which work that takes space is refused; None while there is enough."""
        self._listeners: list[Callable[[bool], None]] = []

    def check(self) -> None:
        """Raise `DiskLow` while there is not enough space."""
        if self.refusal is not None:
            raise self.refusal.again()

    def allows(self, size: int) -> bool:
        """Return whether `size` bytes may be used by work that then frees more than that."""
        seen = self.figures()
        return self.refusal is None or (seen is not None and seen.free >= SPARED * size)

    def when_changed(self, call: Callable[[bool], None]) -> None:
        """Call with True when space becomes low, and with False when there is enough again."""
        self._listeners.append(call)

    def make_room(self) -> bool:
        """Return whether a thread that found the disk full should try again."""
        return False

    def ran_out(self) -> None:
        """Note that a write found the disk full; called on the owner's thread."""

    def look_soon(self) -> None:
        """Measure before the timer is due, for example when another process saw a change."""

    def add_journal(self, is_full: Callable[[], bool], probe: Callable[[], None]) -> None:
        """Add a journal: `is_full` tells whether its last round found the disk full, and `probe`
        makes it write one."""

    def figures(self) -> SpaceFigures | None:
        """Return the results of the last measurement; None without measurements."""
        return None

    def stop(self) -> None:
        """Stop measuring."""

    def set_aside(self) -> None:
        """Reserve available space for the next start; called in a thread, at the very end."""


class _Seen(NamedTuple):
    space: Space
    limit: int
    lacking: int
    """The bytes of the reserves that are not held."""
    reserved: int


class DiskSpace(SpaceState):
    """The `SpaceState` of a process; call `look` once before anything is served, then `start`."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        limit: FreeLimit,
        of_store: Reserve | None,
        of_metadata: Reserve | None,
        worker: Worker,
        clock: Clock,
        log: Callable[[bool, str], None],
    ) -> None:
        """`path` names the disk in texts.  `of_store` is the reserve of the store that this process
        writes, `of_metadata` that of the metadata, which releases it by itself.  `log` is called
        when space becomes low and when there is enough again, with a text for the operator."""
        super().__init__()
        self._disk = disk
        self._path = path
        self._limit = limit
        self._of_store = of_store
        self._reserves = [one for one in (of_store, of_metadata) if one is not None]
        self._worker = worker
        self._clock = clock
        self._log = log
        self._seen: _Seen | None = None
        self._is_looking = self._looks_again = False
        self._written = 0
        self._ran_out = False
        self._journals: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._timer: Timer | None = None
        self._stopped = False

    async def look(self) -> None:
        """Measure now; the state has the results on return."""
        self._apply(await self._worker.run(partial(self._measure, self._seen is None)))

    def start(self) -> None:
        """Measure every `LOOK_SECONDS` until `stop`."""
        self._timer = self._clock.later(LOOK_SECONDS, self._due)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def written(self, size: int) -> None:
        """Count bytes that were written to the journal; called once for each of its rounds."""
        self._written += size
        seen = self._seen
        if seen is not None and self._written * LOOKED_AFTER_PART > seen.limit > 0:
            self.look_soon()

    def make_room(self) -> bool:
        # promise[self.refusal is None -> False]: messages do not use up the reserve
        if self.refusal is None or self._of_store is None:
            return False  # while messages are taken they would use up what is set aside
        return self._of_store.give()

    def ran_out(self) -> None:
        seen = self._seen
        if seen is None or not seen.limit:
            return
        self._ran_out = True
        self._set(seen)
        self.look_soon()

    def add_journal(self, is_full: Callable[[], bool], probe: Callable[[], None]) -> None:
        self._journals.append((is_full, probe))

    def figures(self) -> SpaceFigures | None:
        seen = self._seen
        if seen is None:
            return None
        return SpaceFigures(
            seen.space.free, seen.space.size, seen.limit, seen.reserved, self.refusal is not None
        )

    def set_aside(self) -> None:
        space = self._disk.space()
        size = reserve_bytes(space.size, self._limit.of(space.size))
        for one in self._reserves:
            free = self._disk.space().free
            if size and not one.is_held() and free >= LEAST_RESERVED:
                one.take(min(size, free))

    # Looking ------------------------------------------------------------------------------

    def _due(self) -> None:
        self._timer = self._clock.later(LOOK_SECONDS, self._due)
        self._probe()
        self.look_soon()

    def look_soon(self) -> None:
        if self._stopped:
            return
        if self._is_looking:
            self._looks_again = self._looks_again or self._ran_out
            return
        self._is_looking, self._written = True, 0
        ran_out, self._ran_out = self._ran_out, False
        self._worker.submit(partial(self._measure, False, ran_out), self._looked)

    def _looked(self, seen: _Seen | None, error: BaseException | None) -> None:
        self._is_looking = False
        if seen is not None:  # else the disk cannot be measured: a write will show why
            self._apply(seen)
        if self._looks_again:
            self._looks_again = False
            self.look_soon()

    def _probe(self) -> None:
        """Check whether journals that found the disk full can write again: free space does not show
        a quota or a limit of file sizes."""
        for is_full, probe in self._journals:
            if is_full():
                probe()

    def _measure(self, is_first: bool, ran_out: bool = False) -> _Seen:
        """Measure, in the worker's thread."""
        if ran_out and self._of_store is not None:
            self._of_store.give()
        space = self._disk.space()
        limit = self._limit.of(space.size)
        size = reserve_bytes(space.size, limit)
        lacking = [one for one in self._reserves if size and not one.is_held()]
        needed = size * len(lacking)
        # A reserve that was given back is not taken again while the room is needed.
        if lacking and space.free >= needed + (needed if is_first else resumed_at(limit)):
            lacking = [one for one in lacking if not one.take(size)]
            space = self._disk.space()
        missed = 0 if is_first else size * len(lacking)
        return _Seen(space, limit, missed, size * (len(self._reserves) - len(lacking)))

    # The state ----------------------------------------------------------------------------

    def _apply(self, seen: _Seen) -> None:
        self._seen = seen
        self._set(seen)

    def _set(self, seen: _Seen) -> None:
        free, limit = seen.space.free, seen.limit
        was_low = self.refusal is not None
        enough = resumed_at(limit) if was_low else limit
        # promise[without or any(is_full() for is_full, _ in self._journals)]: messages are taken
        #   again when the journal can be written, whatever the free space
        is_low = limit > 0 and bool(
            free < enough
            or seen.lacking
            or self._ran_out
            or any(is_full() for is_full, _ in self._journals)
        )
        # A new error each time, with the present figures.
        refusal = self._refusal(seen.space.free, limit, enough + seen.lacking)
        self.refusal = refusal if is_low else None
        if is_low != was_low:
            self._log(
                is_low,
                str(refusal) if is_low else f"messages are taken again: {named_bytes(free)} free",
            )
            for call in self._listeners:
                call(is_low)

    def _refusal(self, free: int, limit: int, needed: int) -> DiskLow:
        text = LOW_TEXT if free < limit else RESUMING_TEXT if free < needed else NO_ROOM_TEXT
        figures = {"free": free, "limit": limit, "needed": needed}
        return DiskLow(
            text.format(
                path=self._path, **{name: named_bytes(size) for name, size in figures.items()}
            )
        )
