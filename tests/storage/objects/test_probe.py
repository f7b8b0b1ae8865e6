"""The probe of a store of objects: which stores it accepts, and its words for the others."""

from collections.abc import Sequence

import pytest

from fakes.faulty_objects import Fault, FaultyObjects
from fakes.world import InlineWorker, ManualClock, run
from magnetar_storage.errors import (
    AccessDenied,
    ConditionsNotKept,
    ObjectChanged,
    StorageError,
    Unavailable,
)
from magnetar_storage.objects.interfaces import Creation
from magnetar_storage.objects.probe import RACERS, probe


def probed(objects: FaultyObjects) -> StorageError | None:
    """Probe a store, and return the error; the store must be empty at the end if it answers."""
    clock = ManualClock()
    racers = [InlineWorker(clock) for _ in range(RACERS)]
    try:
        run(probe(objects, racers, "probe/1"), clock)
    except StorageError as error:
        return error
    return None


def test_a_store_that_keeps_conditions_is_accepted_and_left_clean() -> None:
    objects = FaultyObjects()
    assert probed(objects) is None
    assert objects.names() == []
    assert objects.log.count("create probe/1") == RACERS + 1


def test_a_store_that_ignores_conditions_is_refused() -> None:
    objects = FaultyObjects()
    objects.keeps_conditions = False
    error = probed(objects)
    assert isinstance(error, ConditionsNotKept)
    assert str(error) == (
        "the store of objects does not keep If-None-Match: of 32 writes that were to create object"
        " probe/1 at the same time, it accepted 32"
    )
    assert objects.names() == []


class Overwriting(FaultyObjects):
    """Refuses to create an object that exists, after it has replaced it."""

    def create(self, name: str, data: Sequence[bytes]) -> Creation:
        created = super().create(name, data)
        self.put(name, b"".join(data))
        return created


class OverwritingOnce(FaultyObjects):
    """Does so in a race alone."""

    def create(self, name: str, data: Sequence[bytes]) -> Creation:
        created = super().create(name, data)
        if self.log.count(f"create {name}") <= RACERS:
            self.put(name, b"".join(data))
        return created


class Forgetful(FaultyObjects):
    """Keeps the condition while writes race, but not later."""

    def create(self, name: str, data: Sequence[bytes]) -> Creation:
        self.keeps_conditions = self.log.count(f"create {name}") < RACERS
        return super().create(name, data)


class Unconditional(FaultyObjects):
    """Creates as it should, and replaces in any case."""

    def replace(self, name: str, data: Sequence[bytes], tag: str | None) -> str:
        return super().replace(name, data, None)


class Pretending(FaultyObjects):
    """Replaces in any case, and refuses afterwards."""

    def replace(self, name: str, data: Sequence[bytes], tag: str | None) -> str:
        if tag is not None and tag != self.tag(name):
            self.put(name, b"".join(data))
            raise ObjectChanged("too late")
        return super().replace(name, data, tag)


class Inverted(FaultyObjects):
    """Replaces only by tags that are old."""

    def replace(self, name: str, data: Sequence[bytes], tag: str | None) -> str:
        if tag is not None and tag == self.tag(name):
            raise ObjectChanged("412")
        return super().replace(name, data, None)


class Untagged(FaultyObjects):
    """Has one tag for all objects."""

    def replace(self, name: str, data: Sequence[bytes], tag: str | None) -> str:
        super().replace(name, data, None)
        return "same"


@pytest.mark.parametrize(
    ("store", "words"),
    [
        (Overwriting, "If-None-Match: it accepted a write that was to create object probe/1,"),
        (OverwritingOnce, "If-None-Match: object probe/1 has the content of a write that was ref"),
        (Forgetful, "If-None-Match: it accepted a write that was to create object probe/1, which"),
        (Unconditional, "does not keep If-Match: it replaced object probe/1-tag although"),
        (Pretending, "does not keep If-Match: it replaced object probe/1-tag although"),
        (Inverted, "does not know If-Match: it refused to replace object probe/1-tag by its"),
        (Untagged, "gave two versions of object probe/1-tag the same tag"),
    ],
)
def test_a_store_that_keeps_a_condition_in_part_is_refused(
    store: type[FaultyObjects], words: str
) -> None:
    objects = store()
    error = probed(objects)
    assert isinstance(error, ConditionsNotKept)
    assert words in str(error)
    assert objects.names() == []


def test_lost_answers_are_no_verdict() -> None:
    objects = FaultyObjects()
    objects.fault = lambda operation, name: Fault.LANDED if operation == "create" else None
    assert type(probed(objects)) is Unavailable
    objects.fault = lambda operation, name: Fault.CONFLICT if operation == "create" else None
    assert type(probed(objects)) is Unavailable
    objects.fault = lambda operation, name: Fault.LANDED if operation == "replace" else None
    assert type(probed(objects)) is Unavailable
    assert objects.names() == []


def test_a_doubled_replacement_is_no_verdict() -> None:
    objects = FaultyObjects()
    objects.fault = lambda operation, name: Fault.DOUBLED if operation == "replace" else None
    error = probed(objects)
    assert type(error) is Unavailable
    assert "replaced object probe/1-tag and reported a failure" in str(error)


def test_refused_credentials_end_the_probe_when_all_racers_have_ended() -> None:
    objects = FaultyObjects()
    objects.fault = lambda operation, name: Fault.EXPIRED
    error = probed(objects)
    assert isinstance(error, AccessDenied)
    assert objects.log.count("create probe/1") == RACERS
    # The verdict stays, although the objects could not be deleted.
    assert error.__notes__ == [
        "object probe/1 is still there: delete probe/1: the credentials have expired"
    ]


def test_objects_that_cannot_be_deleted_are_reported() -> None:
    objects = FaultyObjects()
    objects.fault = lambda operation, name: Fault.BUSY if operation == "delete" else None
    error = probed(objects)
    assert isinstance(error, Unavailable)
    assert objects.names() == ["probe/1", "probe/1-tag"]
