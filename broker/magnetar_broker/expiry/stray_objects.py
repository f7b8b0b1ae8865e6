"""Stray objects: objects of this data directory that no record of a log lists; they are deleted.

Uploads leave them that take place after their failure, or after the deletion of their topic.

An object that is listed by the store *before* all records are read, and by none of them, is stray
for ever.  Its upload began after the record had listed it, in whichever process.  A record that
does not list it any more never does again, since no name is used twice; and no record moves to
another key.  So other processes may offload and delete at the same time, and an upload that takes
place late leaves an object that a later round finds.  A record that cannot be read may list any
object: then nothing is deleted.  And a stray object is deleted only when a round long before has
found it, since the metadata may be a wrong or an old copy, which somebody replaces.
"""

import logging
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.base.periodic_jobs import PeriodicJobs
from magnetar_broker.config import Settings
from magnetar_broker.expiry.listed_objects import ListedObjects, ObjectAccess, listed_objects
from magnetar_broker.expiry.named_places import named_places
from magnetar_broker.expiry.orphans import NAMED
from magnetar_broker.expiry.unreachable_objects import UnreachableObjects
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock
from magnetar_storage.tiered import own_objects
from magnetar_storage.tiered.own_objects import About

logger = logging.getLogger(__name__)

COLLECTION: Final = "deletion of stray objects"
LOOK_SECONDS: Final = 3600
"""The seconds from the start until the first round."""
INTERVAL_SECONDS: Final = 86_400
PART: Final = 10_000
"""The objects that are listed before all records are read."""
MOST: Final = 50_000
"""The number of stray objects after which a round leaves the others to later ones."""


class StrayObjects:
    """Deletes the stray objects of a data directory; one process of a broker does."""

    def __init__(
        self,
        settings: Settings,
        metadata: MetadataStore,
        clock: Clock,
        clock_watch: ClockWatch,
        access: ObjectAccess,
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._clock = clock
        self._access = access
        self._next = 0.0
        """The uptime at which the next round is due."""
        self.deleted = 0
        """The number of objects deleted since the start of this process."""
        self.unreachable = UnreachableObjects(
            metadata, clock_watch, access, settings.magnetar_offload_give_up_minutes
        )

    def register(self, jobs: PeriodicJobs) -> None:
        """Look for stray objects an hour after the start, and every day from then on."""
        self.unreachable.register(jobs)
        if self._settings.magnetar_offload_orphan_minutes >= 0:
            jobs.every(LOOK_SECONDS, COLLECTION, self._look)

    async def _look(self) -> None:
        if self._clock.uptime() >= self._next:
            self._next = self._clock.uptime() + INTERVAL_SECONDS
            await self.collect()

    async def collect(self) -> None:
        """Delete the stray objects of all places that are known.

        An error of one place is logged: it does not prevent the rest.
        """
        found = await self._listed()
        if found is None:
            return
        named = await named_places(self._metadata, self._settings)
        if named.unreadable:
            raise named.unreadable[0]
        places = found.places | await self.unreachable.places() | named.places
        for place in sorted(places):
            try:
                await self._collect(place)
            except StorageError as error:
                logger.warning("%s in %s failed and will be retried: %s", COLLECTION, place, error)

    async def _collect(self, place: str) -> None:
        prefix, run = self._access.prefix, self._access.worker.run
        grace_ms = self._settings.magnetar_offload_orphan_minutes * 60_000

        def begin() -> tuple[Objects, About, Iterator[str]]:
            objects = self._access.open_place(place)
            times = own_objects.about(objects, prefix)
            return objects, times, own_objects.not_shared(objects, prefix, times)

        objects, times, names = await run(begin)
        stray = set[str]()
        while len(stray) < MOST and (
            candidates := await run(partial(own_objects.some, names, PART))
        ):
            # Only now: those that were read before lack what was uploaded since.
            listed = await self._listed()
            if listed is None:
                return
            stray |= candidates - listed.names
        deleted = await run(
            partial(own_objects.delete_noticed, objects, prefix, stray, times, grace_ms)
        )
        self._report(place, deleted)

    async def _listed(self) -> ListedObjects | None:
        """Return the copies in all records; None, with a warning, if one record cannot be read."""
        listed = await listed_objects(self._metadata)
        # promise: an object that a damaged record may list is not deleted
        if listed.damaged:
            logger.warning(
                "the metadata records of %s cannot be read: no object that they may list is "
                "deleted",
                ", ".join(listed.damaged[:NAMED]),
            )
            return None
        return listed

    def _report(self, place: str, stray: Collection[str]) -> None:
        if not stray:
            return
        self.deleted += len(stray)
        some = ", ".join(sorted(stray)[:NAMED])
        logger.warning(
            "deleted %d objects that no ledger belongs to from %s (magnetarOffloadOrphanMinutes): "
            "%s%s",
            len(stray), place, some, "" if len(stray) <= NAMED else ", ...",
        )  # fmt: skip
