"""Whether a store of objects and a store of metadata belong together.

Both have the id of the data.  So a broker does not take the segments of one installation, whose
metadata it cannot see, for segments that nobody needs.
"""

from functools import partial
from typing import Final

from magnetar_storage.errors import Incomplete, NoObject
from magnetar_storage.interfaces import ABSENT, MetadataStore
from magnetar_storage.objects.creation import NONCE_BYTES, create_once
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.runtime.execution import Clock, Worker

OBJECT: Final = "identity"
"""The name of the object with the id."""
PROBES: Final = "probe/"
"""The beginning of the names of objects that the check of a store may leave behind."""
KEY: Final = "/identity"
"""The key of the id in the metadata."""
LIMIT_SECONDS: Final = 30.0


async def belong(
    objects: Objects,
    metadata: MetadataStore,
    worker: Worker,
    clock: Clock,
    new_id: bytes,
    named: tuple[str, str],
) -> bytes:
    """Return the id of the data, which is `new_id` if both stores are new.

    Only the broker that serves the data calls it: two at a time could each give it an id.
    `Incomplete` if the stores do not belong together; `named` are their names, objects first, for
    its text.  `new_id` has `NONCE_BYTES`.
    """
    there = await worker.run(partial(id_in, objects))
    found = await metadata.get(KEY)
    known = None if found is None else found.value
    if there is None and known is None:
        there = await _begin(objects, worker, clock, new_id, named)
    if there is not None and known is None:
        # A first start ended before this write, unless there are other objects.
        if await worker.run(partial(_another, objects)) is not None:
            raise Incomplete(_text(named, "the metadata has no id, and the objects have one"))
        await metadata.put(KEY, there, ABSENT)
        known = there
    # promise[there != known -> there is None]: segments of other metadata are not touched
    if known is None or there != known:
        which = "no id" if there is None else "another id"
        raise Incomplete(_text(named, f"the metadata has an id, and the objects have {which}"))
    return known


async def _begin(
    objects: Objects, worker: Worker, clock: Clock, new_id: bytes, named: tuple[str, str]
) -> bytes:
    """Create the object with the id, in a store of objects that must be new."""
    if (another := await worker.run(partial(_another, objects))) is not None:
        raise Incomplete(_text(named, f"there is the object {another}, and none named {OBJECT}"))
    if not await create_once(objects, worker, clock, OBJECT, new_id, [], LIMIT_SECONDS):
        raise Incomplete(_text(named, f"another broker has just created the object {OBJECT}"))
    return new_id


def id_in(objects: Objects) -> bytes | None:
    """Return the id in the store of objects; None if it has none; blocks."""
    try:
        return objects.read(OBJECT, 0, NONCE_BYTES)
    except NoObject:
        return None


def _another(objects: Objects) -> str | None:
    """Return an object besides the one with the id and those of probes; None without; blocks."""
    names = (each.name for each in objects.list(""))
    return next((one for one in names if one != OBJECT and not one.startswith(PROBES)), None)


def _text(named: tuple[str, str], what: str) -> str:
    objects, metadata = named
    return (
        f"{objects} and {metadata} do not belong together: {what}. Nothing was changed. Check "
        "magnetarSegmentStore and metadataStoreUrl, or restore the one that was lost"
    )
