"""The objects that the records of logs list, and the access of a process to them."""

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from magnetar_broker.base.metadata_keys import TOPICS, topic_of
from magnetar_broker.expiry.orphans import RECORDS
from magnetar_storage.errors import Corrupt
from magnetar_storage.interfaces import MetadataStore, SegmentCopy
from magnetar_storage.log.log_record import LogRecord, is_unused
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Worker


class ObjectAccess(NamedTuple):
    """The access of a process to the objects of a data directory."""

    prefix: str
    """The prefix of the names of the directory's objects."""
    open_place: Callable[[str], Objects]
    """Opens the store of objects of a place; called in the thread of `worker`."""
    worker: Worker
    formers: tuple[str, ...]
    """The prefixes of objects that this directory was copied with: others may delete them."""
    forget_formers: Callable[[], Awaitable[None]]
    """Forgets the formers durably, once those who may delete their objects cannot do so."""


class ListedObjects(NamedTuple):
    """The copies that records list, complete or not, and to be deleted or not."""

    places: set[str]
    names: set[str]
    """The names of the copies, whichever place they are in: no two objects have the same name, and
    one store may have several places."""
    damaged: list[str]
    """The topics whose records cannot be read, and may list any other objects."""

    def add(self, record: LogRecord) -> None:
        for copy in (*_copies(record), *record.copy_trash):
            self.places.add(copy.place)
            self.names.add(copy.name)


async def listed_objects(metadata: MetadataStore) -> ListedObjects:
    """Return the copies in all records that can be read, and the topics of the others."""
    listed, after = ListedObjects(set(), set(), []), ""
    while page := await metadata.read_under(TOPICS, after, RECORDS):
        for key, found in page:
            try:
                if isinstance(found, Corrupt):
                    raise found
                if not is_unused(found.value):
                    listed.add(LogRecord.decode(key, found.value))
            except Corrupt:
                listed.damaged.append(topic_of(key))
        after = page[-1][0]
    return listed


def _copies(record: LogRecord) -> Iterator[SegmentCopy]:
    return (one.copy for one in record.segments if one.copy is not None)
