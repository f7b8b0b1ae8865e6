"""Whether the disk has room for more: watched by a timer, and known to all that would take it.

Below the limit of free space, or when a write found no room, messages and topics are refused until
there is more room again.  All that makes room goes on, and has the reserves for it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from magnetar_storage.errors import DiskLow
from magnetar_storage.space.free_limit import FreeLimit, named_bytes, reserve_bytes, resumed_at
from magnetar_storage.space.reserve import Reserve
from magnetar_storage.world.disk import Disk, Space
from magnetar_storage.world.runtime import Clock, Timer, Worker

LOOK_SECONDS: Final = 1.0
LOOKED_AFTER_PART: Final = 8
"""When this part of the limit was written since the last look, the next one does not wait."""

LEAST_RESERVED: Final = 16 << 10
"""What a stop sets aside at least, if it can: a start on a full disk needs some blocks."""
SPARED: Final = 4
"""So many times the bytes must be free that work takes which frees more of them."""

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
    """What was seen last, in bytes."""

    free: int
    size: int
    limit: int
    reserved: int
    is_low: bool


class SpaceState:
    """Whether there is room, as all that asks for some sees it; always, if nobody looks."""

    def __init__(self) -> None:
        self.refusal: DiskLow | None = None
        """Why what takes room is refused; None while there is enough."""
        self._listeners: list[Callable[[bool], None]] = []

    def check(self) -> None:
        """`DiskLow` while there is not enough room."""
        if self.refusal is not None:
            raise self.refusal.again()

    def allows(self, size: int) -> bool:
        """Whether so many bytes may be taken for work that frees more of them."""
        seen = self.figures()
        return self.refusal is None or (seen is not None and seen.free >= SPARED * size)

    def when_changed(self, call: Callable[[bool], None]) -> None:
        """Call with True when room begins to lack, and with False when there is enough again."""
        self._listeners.append(call)

    def make_room(self) -> bool:
        """In a thread that found no room to write: whether it is worth while to try once more."""
        return False

    def ran_out(self) -> None:
        """A write found no room; called on the owner's thread."""

    def look_soon(self) -> None:
        """Look before the timer is due, for example because another process has seen a change."""

    def add_journal(self, is_full: Callable[[], bool], probe: Callable[[], None]) -> None:
        """Know a journal: whether its last round found no room, and what has it write one."""

    def figures(self) -> SpaceFigures | None:
        """What was seen last; None if nobody looks."""
        return None

    def stop(self) -> None:
        """Look no more."""

    def set_aside(self) -> None:
        """In a thread, at the very end: set aside what there is room for, for the next start."""


class _Seen(NamedTuple):
    space: Space
    limit: int
    lacking: int
    """Bytes of the reserves that are not set aside."""
    reserved: int


class DiskSpace(SpaceState):
    """The `SpaceState` of a process; `look` once before anything is served, then `start` it."""

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
        writes, `of_metadata` that of the metadata, which gives it back by itself.  `log` is called
        when room begins to lack and when there is enough again, with a text for the operator."""
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
        """Look now; what was seen holds on return."""
        self._apply(await self._worker.run(partial(self._measure, self._seen is None)))

    def start(self) -> None:
        """Look every `LOOK_SECONDS` until `stop`."""
        self._timer = self._clock.later(LOOK_SECONDS, self._due)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def written(self, size: int) -> None:
        """So many bytes were written to the journal; called once for each of its rounds."""
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
        if seen is not None:  # else the disk cannot even be asked: what is written will show it
            self._apply(seen)
        if self._looks_again:
            self._looks_again = False
            self.look_soon()

    def _probe(self) -> None:
        """Find out whether journals that found no room can write: free space does not tell that of
        a quota or a limit of file sizes."""
        for is_full, probe in self._journals:
            if is_full():
                probe()

    def _measure(self, is_first: bool, ran_out: bool = False) -> _Seen:
        """In the worker's thread."""
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
        # A new one each time, with the present figures.
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
