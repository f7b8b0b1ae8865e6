"""Stores of objects are opened when they are needed, and few stay open."""

import pytest

from fakes.faulty_objects import FaultyObjects
from magnetar_storage.errors import Unavailable
from magnetar_storage.tiered.open_places import OpenPlaces


def test_few_stores_stay_open_however_many_places_there_are() -> None:
    opened: list[str] = []

    def open_place(place: str) -> FaultyObjects:
        opened.append(place)
        return FaultyObjects()

    places = OpenPlaces(open_place, most=3)
    for place in ("a", "b", "a", "c", "a"):
        assert places.get(place) is places.get(place)
    assert opened == ["a", "b", "c"]
    for number in range(100):
        places.get(str(number))
        assert len(places._open) <= 3
    del opened[:]
    for place in ("97", "98", "99", "a"):
        places.get(place)
    assert opened == ["a"], "the newest ones are open"


def test_a_store_that_cannot_be_opened_is_tried_again() -> None:
    errors, objects = [Unavailable("away")], FaultyObjects()

    def open_place(place: str) -> FaultyObjects:
        if errors:
            raise errors.pop()
        return objects

    places = OpenPlaces(open_place)
    with pytest.raises(Unavailable, match="away"):
        places.get("a")
    assert places.get("a") is objects
