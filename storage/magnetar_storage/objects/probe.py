"""A test of whether a store of objects keeps the conditions of writes.

Stores that are like S3 differ here: some ignore conditions, some check them before they write
and not while they write.  Primary storage depends on them; copies of finished segments do not.
"""

from collections.abc import Sequence
from functools import partial

from magnetar_storage.errors import (
    ConditionsNotKept,
    NoObject,
    ObjectChanged,
    StorageError,
    Unavailable,
)
from magnetar_storage.objects.interfaces import Creation, Objects
from magnetar_storage.runtime.execution import Worker

RACERS = 32
"""The number of writes of one object that are made at once."""


async def probe(objects: Objects, racers: Sequence[Worker], name: str) -> None:
    """Raise `ConditionsNotKept` if the store ignores a condition of `create` or `replace`.

    `name` is one that was never used; a second object has a name that begins with it.  Both are
    deleted at the end.  Each of `racers` creates the first object, all at once: `RACERS` workers
    with threads of their own make the race sharp.  `Unavailable` if the store cannot be asked now.
    """
    verdict: StorageError | None = None
    try:
        await _race(objects, racers, name)
        await racers[0].run(partial(_replace_stale, objects, f"{name}-tag"))
    except StorageError as error:
        verdict = error
    try:
        await racers[0].run(partial(_delete, objects, name))
    except StorageError as error:
        if verdict is None:
            raise
        verdict.add_note(f"object {name} is still there: {error}")
    if verdict is not None:
        raise verdict


async def _race(objects: Objects, racers: Sequence[Worker], name: str) -> None:
    """Let all racers create one object, of which one must be told that it did."""
    bodies = [b"racer %d" % number for number in range(len(racers))]
    # All are started before the first one is awaited.
    racing = [
        worker.run(partial(objects.create, name, [body]))
        for worker, body in zip(racers, bodies, strict=True)
    ]
    answers: list[Creation] = []
    failure: StorageError | None = None
    for running in racing:
        try:
            answers.append(await running)
        except StorageError as error:
            failure = error  # raised below: no racer must run on after the end of the probe
    if failure is not None:
        raise failure
    # A racer without an answer may have won: then all others must have lost.
    won = [number for number, answer in enumerate(answers) if answer is Creation.CREATED]
    if len(won) > 1:
        raise ConditionsNotKept(
            f"the store of objects does not keep If-None-Match: of {len(racers)} writes that were"
            f" to create object {name} at the same time, it accepted {len(won)}"
        )
    late = await racers[0].run(partial(objects.create, name, [b"late"]))
    found = await racers[0].run(partial(_read, objects, name))
    if late is Creation.CREATED or found == b"late":
        raise ConditionsNotKept(
            "the store of objects does not keep If-None-Match:"
            f" it accepted a write that was to create object {name}, which existed"
        )
    if found is None or not won:
        raise Unavailable(
            f"the store of objects did not say which of {len(racers)} writes created object {name}:"
            " try again"
        )
    if found != bodies[won[0]]:
        raise ConditionsNotKept(
            "the store of objects does not keep If-None-Match:"
            f" object {name} has the content of a write that was refused"
        )


def _replace_stale(objects: Objects, name: str) -> None:
    """Replace an object by its tag, and again by the old tag, which must be refused; blocks."""
    old = objects.replace(name, [b"first"], None)
    try:
        new = objects.replace(name, [b"second"], old)
    except ObjectChanged as error:
        if _read(objects, name) == b"second":
            raise Unavailable(
                f"the store of objects replaced object {name} and reported a failure: try again"
            ) from error
        raise ConditionsNotKept(
            "the store of objects does not know If-Match:"
            f" it refused to replace object {name} by its present tag ({error})"
        ) from error
    if new == old:
        raise ConditionsNotKept(
            f"the store of objects gave two versions of object {name} the same tag"
        )
    accepted = True
    try:
        objects.replace(name, [b"third"], old)
    except ObjectChanged:
        accepted = False
    # promise[accepted or _read(objects, name) != b"second" -> accepted]: a store that refuses a
    #   write and applies it nevertheless is not used
    if accepted or _read(objects, name) != b"second":
        raise ConditionsNotKept(
            "the store of objects does not keep If-Match:"
            f" it replaced object {name} although the tag was an old one"
        )


def _read(objects: Objects, name: str) -> bytes | None:
    try:
        return objects.read(name, 0, 64)
    except NoObject:
        return None


def _delete(objects: Objects, name: str) -> None:
    """Delete what the probe has written; blocks."""
    for each in (name, f"{name}-tag"):
        objects.delete(each)
