"""Objects that a data directory shares with the one that it was copied from.

A restored directory lists objects that the original uploaded and would delete with their ledgers.
So the copy writes a mark for the original to each store (`own_objects.share`), which keeps all
objects that are older than the mark.  The copy itself never deletes objects of another prefix.
"""

import logging
from collections.abc import Collection
from functools import partial
from typing import Final

from magnetar_broker.base.periodic_jobs import PeriodicJobs
from magnetar_broker.config import Settings
from magnetar_broker.expiry.listed_objects import ListedObjects, ObjectAccess, listed_objects
from magnetar_broker.expiry.named_places import named_places
from magnetar_broker.expiry.orphans import NAMED
from magnetar_storage.errors import StorageError
from magnetar_storage.interfaces import MetadataStore
from magnetar_storage.tiered import own_objects

logger = logging.getLogger(__name__)

SHARING: Final = "sharing of objects with the original of this data directory"
SHARE_SECONDS: Final = 10


class SharedObjects:
    """Marks the shared objects, once; it is repeated until it succeeds."""

    def __init__(self, settings: Settings, metadata: MetadataStore, access: ObjectAccess) -> None:
        self._settings = settings
        self._metadata = metadata
        self._access = access
        self._is_done = not access.formers
        self._marked = set[tuple[str, str]]()
        """The places and the formers whose objects there are marked: once is enough."""
        self._reported = list[str]()
        """The damaged metadata that was logged last: it is not repeated with each round."""

    def register(self, jobs: PeriodicJobs) -> None:
        """Mark the objects soon after the start, if this directory is a copy."""
        if not self._is_done:
            jobs.every(SHARE_SECONDS, SHARING, self.share)

    async def share(self) -> None:
        """Mark the objects in all places that records name.

        The first `StorageError` of a place is raised after all places were tried.  While a record
        cannot be read, which may name any place, it remains to be done.
        """
        if self._is_done:
            return
        listed = await listed_objects(self._metadata)
        if listed.damaged:
            await self._mark_for_damaged(listed)
            return
        formers = [one for one in self._access.formers if _has_any(listed.names, one)]
        if formers:
            await self._mark(listed.places, formers)
        # promise: the marks are written before this directory forgets that it is a copy
        await self._access.forget_formers()
        self._is_done = True
        if formers:
            logger.warning(
                "this data directory is a copy: it shares objects with the prefixes %s with the "
                "original, and neither deletes those of before",
                ", ".join(formers),
            )

    async def _mark_for_damaged(self, listed: ListedObjects) -> None:
        """Mark the objects in all places that a damaged record may name, as far as is known."""
        named = await named_places(self._metadata, self._settings)
        damaged = [*listed.damaged, *(error.file for error in named.unreadable)]
        if self._reported != damaged:
            self._reported = damaged
            logger.error(
                "the metadata of %s%s cannot be read, so it is unknown which objects it lists: "
                "the original of this data directory keeps the objects of the prefixes %s only in "
                "the places that other records, the settings and other policies name, and may "
                "delete those elsewhere; restore this directory from another snapshot",
                ", ".join(damaged[:NAMED]), "" if len(damaged) <= NAMED else ", ...",
                ", ".join(self._access.formers),
            )  # fmt: skip
        # promise: what cannot be read here does not let the original delete what can be
        await self._mark(listed.places | named.places, self._access.formers)

    async def _mark(self, places: Collection[str], formers: Collection[str]) -> None:
        """Mark the objects of `formers` that are not marked yet, in each place that is there."""
        failed: StorageError | None = None
        for place in sorted(places):
            marks = [(place, one) for one in formers if (place, one) not in self._marked]
            if not marks:
                continue
            try:
                await self._access.worker.run(partial(self._share, place, marks))
            except StorageError as error:
                # The others cannot wait for a place that may never come back: until they are
                # marked, the original deletes what is there.
                failed = failed or error
            else:
                self._marked.update(marks)
        if failed is not None:
            raise failed

    def _share(self, place: str, marks: Collection[tuple[str, str]]) -> None:
        """Write the marks of one place.  Runs in a thread."""
        objects = self._access.open_place(place)
        for _, former in marks:
            own_objects.share(objects, former)


def _has_any(names: set[str], prefix: str) -> bool:
    return any(own_objects.is_own(prefix, name) for name in names)
