"""The objects of a data directory whose metadata is lost: where to look, and what is there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from magnetar_broker.base.metadata_keys import OBJECTS, TOPICS
from magnetar_broker.config import Settings
from magnetar_broker.config.offload_places import members_in
from magnetar_broker.policies.offload_values import offload_rules
from magnetar_broker.server.data_directory.object_names import ObjectPrefix, decoded
from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.interfaces import SegmentCopy
from magnetar_storage.log.left_objects import LEFT, LeftObjects
from magnetar_storage.log.log_record import LogRecord
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.rebuild.objects import FoundObjects, candidates, examined
from magnetar_storage.tiered import own_objects

READERS: Final = 16
"""The number of objects that are looked at together: each answer of a store takes a while."""
NAMED: Final = 10
"""The most objects that a report names."""


class Search(NamedTuple):
    """Where objects are looked for."""

    open_place: Callable[[str], Objects]
    places: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    """Further prefixes of names, besides that of the data directory."""


def place_in(settings: Settings) -> str:
    """Return the place of the settings, "" if they name none; `Unavailable` if it is wrong."""
    members = members_in(settings)
    rules = offload_rules(members, members)
    if rules.trouble:
        raise Unavailable(rules.trouble)
    return rules.place


def _noted_prefix(directory: bytes, older: Mapping[str, bytes]) -> ObjectPrefix:
    """Return the prefix of a data directory, as far as its older metadata or its id tells."""
    value = older.get(OBJECTS)
    return ObjectPrefix(directory.hex()) if value is None else decoded(value)


def prefix_of(directory: bytes, older: Mapping[str, bytes]) -> ObjectPrefix:
    """Return the prefix of a data directory; those of all listed objects are former ones."""
    noted = _noted_prefix(directory, older)
    # A broker forgets the prefixes of originals soon, but goes on reading their objects.
    parts = (own_objects.parts_of(copy.name) for copy in _copies(older))
    formers = dict.fromkeys((*noted.formers, *(one[0] for one in parts if one is not None)))
    formers.pop(noted.own, None)
    return ObjectPrefix(noted.own, tuple(formers))


def listed_before(older: Mapping[str, bytes]) -> Iterator[SegmentCopy]:
    """Yield the copies that readable records of older metadata list as the only ones."""
    return (copy for copy in _copies(older) if copy.is_only)


def _copies(older: Mapping[str, bytes]) -> Iterator[SegmentCopy]:
    """Yield all copies that readable records of older metadata list as complete."""
    for key, value in older.items():
        if key.startswith(TOPICS):
            with suppress(Corrupt):  # which is what the rebuilding is for
                for one in LogRecord.decode(key, value).segments:
                    if one.copy is not None and one.is_copied:
                        yield one.copy


def _left(older: Mapping[str, bytes]) -> set[str]:
    """Return the names of the objects of deleted topics that older metadata has yet to delete."""
    names = set[str]()
    for key, value in older.items():
        if key.startswith(LEFT):
            with suppress(Corrupt):  # as above
                names.update(*LeftObjects.decode(key, value).places.values())
    return names


def found_objects(search: Search, directory: bytes, older: Mapping[str, bytes]) -> FoundObjects:
    """Look for the objects of a data directory in all places that are known.

    `Unavailable` if a place cannot be read: then it is unknown what is there.
    """
    found = FoundObjects()
    noted = _noted_prefix(directory, older)
    prefixes = {noted.own, *noted.formers, *search.prefixes}
    listed = {copy.name: copy.place for copy in _copies(older)}
    places = dict.fromkeys((*search.places, *listed.values()))
    doomed = _left(older)
    opened = {place: search.open_place(place) for place in places}
    with ThreadPoolExecutor(READERS) as threads:
        for place, objects in opened.items():
            chosen = candidates(objects, place, prefixes, found, doomed, listed)
            look = partial(examined, open_place=opened.__getitem__, directory=directory)
            found.add(threads.map(look, chosen))
    return found


def as_lines(found: FoundObjects, listed: int, missing: Sequence[SegmentCopy]) -> list[str]:
    """Return lines about objects; `missing` are those that older metadata lists as the only ones
    and that were not found.
    """
    lines = [
        f"object {one.name} in {one.place} is not used: {one.why}" for one in found.unusable[:NAMED]
    ]
    if more := len(found.unusable) - len(lines):
        lines.append(f"{more} more objects are not used")
    lines.append(
        f"{len(found.segments)} ledgers found in stores of objects, {listed} of them listed as "
        "their only copies; nothing there was changed"
    )
    if found.stray:
        lines.append(f"{found.stray} objects are left out: no topic needed them before")
    for prefix, number in sorted(found.others.items()):
        lines.append(
            f"{number} ledgers there have the prefix {prefix}, which is that of another directory "
            f"or of a state before a repair or a restore: --prefix {prefix} looks at them, too"
        )
    if missing:
        some = ", ".join(copy.name for copy in missing[:NAMED])
        lines.append(
            f"The older metadata.db lists {len(missing)} ledgers in stores of objects that were "
            f"not found: {some}{'' if len(missing) <= NAMED else ', ...'}"
        )
    return lines
