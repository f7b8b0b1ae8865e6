"""Deletes the objects of deleted topics whose place could not be reached at that time.

They are listed in the metadata store (`magnetar_storage.log.left_objects`), and tried again until
they are deleted, or until the broker gives up with an error that names them.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from magnetar_broker.base.clock_watch import ClockWatch
from magnetar_broker.base.metadata_keys import topic_of
from magnetar_broker.base.periodic_jobs import PeriodicJobs
from magnetar_broker.expiry.listed_objects import ObjectAccess
from magnetar_storage.errors import BadVersion, Corrupt, StorageError
from magnetar_storage.interfaces import MetadataStore, Version
from magnetar_storage.log.left_objects import LEFT, PART, LeftObjects
from magnetar_storage.tiered import own_objects

logger = logging.getLogger(__name__)

RETRIES: Final = "deletion of the objects of deleted topics"
RETRY_SECONDS: Final = 600
NAMED: Final = 100
"""The objects that a line of the log names."""


class UnreachableObjects:
    """Tries again to delete the objects; one process of a broker does."""

    def __init__(
        self,
        metadata: MetadataStore,
        clock_watch: ClockWatch,
        access: ObjectAccess,
        minutes: int,
    ) -> None:
        """Give up `minutes` after the deletion of the topic; never if it is negative."""
        self._metadata = metadata
        self._clock_watch = clock_watch
        self._access = access
        self._minutes = minutes
        self.number = 0
        """The objects that were left after the last round."""
        self._reported: dict[str, str] = {}
        """The reason that was logged last, by place: it is not repeated with each round."""
        self._unreadable = set[str]()
        """The keys of the lists that could not be read last, and were logged."""

    def register(self, jobs: PeriodicJobs) -> None:
        """Try it every ten minutes."""
        jobs.every(RETRY_SECONDS, RETRIES, self.retry)

    async def places(self) -> set[str]:
        """Return the places of the objects that are left."""
        return {place for _, found, _ in await self._listed() for place in found.places}

    async def retry(self) -> None:
        """Try once to delete all objects that are left."""
        number, away = 0, dict[str, str]()
        for key, found, version in await self._listed():
            left = {
                place: names
                for place, before in found.places.items()
                if (names := await self._delete(place, before, away))
            }
            remaining = LeftObjects(found.log, found.left_ms, left)
            if left and self._is_over(found):
                self._give_up(remaining, away)
                remaining = LeftObjects(found.log, found.left_ms, {})
            if remaining != found:
                await self._replace(key, remaining, version)
            number += len(remaining)
        self.number = number
        for place in [one for one in self._reported if one not in away]:
            del self._reported[place]

    async def _listed(self) -> list[tuple[str, LeftObjects, Version]]:
        """Return the lists that can be read, with their keys and versions."""
        listed, after = list[tuple[str, LeftObjects, Version]](), ""
        unreadable = dict[str, str]()
        while page := await self._metadata.read_under(LEFT, after):
            for key, found in page:
                try:
                    if isinstance(found, Corrupt):
                        raise found
                    listed.append((key, LeftObjects.decode(key, found.value), found.version))
                except Corrupt as error:  # the other lists do not wait for this one
                    unreadable[key] = str(error)
            after = page[-1][0]
        for key in sorted(unreadable.keys() - self._unreadable):
            logger.error(
                "a list of at most %d objects of a deleted topic, of which %s is the first, cannot "
                "be read, and their deletion is not tried again: %s; they are deleted as objects "
                "that no ledger belongs to (magnetarOffloadOrphanMinutes) if the settings, a "
                "policy or another topic name their place; if not, delete them there by hand",
                PART, key.removeprefix(LEFT), unreadable[key],
            )  # fmt: skip
        self._unreadable = set(unreadable)
        return listed

    async def _delete(
        self, place: str, names: Sequence[str], away: dict[str, str]
    ) -> Sequence[str]:
        """Delete objects of one place; return those that are left."""
        # Each attempt may last a minute: one is enough for a round.
        if place in away:
            return names
        left, why = await self._access.worker.run(partial(self._attempt, place, names))
        if why:
            away[place] = why
            if self._reported.get(place) != why:
                self._reported[place] = why
                logger.warning(
                    "objects of deleted topics in %s cannot be deleted, and are tried again "
                    "every %d minutes: %s", place, RETRY_SECONDS // 60, why,
                )  # fmt: skip
        return left

    def _attempt(self, place: str, names: Sequence[str]) -> tuple[Sequence[str], str]:
        """Delete objects until one cannot be; also return why.  Runs in a thread."""
        prefix, deleted = self._access.prefix, 0
        try:
            objects = self._access.open_place(place)
            # promise[never]: the objects that a copy of the directory may list stay
            if own_objects.is_shared(objects, prefix):
                return [], ""
            for name in names:
                # promise[always]: a copy of the directory deletes no object of the original
                if own_objects.is_own(prefix, name):
                    objects.delete(name)
                deleted += 1
        except StorageError as error:
            return names[deleted:], str(error)
        return [], ""

    def _is_over(self, left: LeftObjects) -> bool:
        if self._minutes < 0:
            return False
        # promise[_clock_watch -> _clock_watch._clock]: a jump of the clock gives up nothing
        return self._clock_watch.now_ms() - left.left_ms >= self._minutes * 60_000

    def _give_up(self, left: LeftObjects, away: Mapping[str, str]) -> None:
        for place, names in left.places.items():
            for start in range(0, len(names), NAMED):
                logger.error(
                    "gave up the deletion of objects of %s, which was deleted, from %s after %d "
                    "minutes (magnetarOffloadGiveUpMinutes): %s; if the place comes back, delete "
                    "them there by hand: %s",
                    topic_of(left.log), place, self._minutes, away.get(place, "unknown"),
                    ", ".join(names[start : start + NAMED]),
                )  # fmt: skip

    async def _replace(self, key: str, left: LeftObjects, version: Version) -> None:
        try:
            if left:
                await self._metadata.put(key, left.encode(), version)
            else:
                await self._metadata.delete(key, version)
        except BadVersion:
            pass  # the deletion of the topic was repeated, and lists them again
