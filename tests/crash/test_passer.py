"""What a subscription that comes and goes may begin with, given what became of its connections."""

from typing import Any, cast

import pytest

from crash.delivery_books import KINDS, Book, Messages
from crash.delivery_clients import Passer
from crash.delivery_load import Topic
from crash.wire import Gone, Refused, Wire


class Connection:
    """The end of a connection: how the next request fails, if it does."""

    def __init__(self, end: Gone | None = None, lost: bool = False) -> None:
        self.lost = lost
        self._end = end

    async def ask(self, command: Any) -> None:
        if self._end is not None:
            raise self._end


class Traffic:
    """The topic: its one producer has `settled` so many messages."""

    name = "persistent://public/default/topic"
    settled = 0

    def __init__(self) -> None:
        self.load = None
        self.floors: list[dict[str, int]] = []

    def new_book(self, kind: str) -> Book:
        book = Book(KINDS[kind], Messages(lambda problem: None), {}, lambda problem: None)
        book.begins_between = (  # type: ignore[method-assign]
            lambda floor, ceiling: self.floors.append(floor)
        )
        return book

    def numbers(self, of: Any) -> dict[str, int]:
        return {"p": self.settled}


@pytest.mark.parametrize(
    ("end", "lost", "floor"),
    [
        (Gone("it is of an earlier life"), False, 10),
        (Gone("closed by the broker"), True, 20),
        (Refused("refused"), False, 20),
    ],
    ids=["ended here", "lost", "refused"],
)
async def test_only_a_request_that_may_be_on_its_way_lowers_the_floor(
    end: Gone, lost: bool, floor: int
) -> None:
    traffic = Traffic()
    passer = Passer(cast(Topic, traffic))
    traffic.settled = 10
    with pytest.raises(Gone):
        await passer._create(cast(Wire, Connection(end, lost)))
    traffic.settled = 20
    await passer._create(cast(Wire, Connection()))
    assert traffic.floors == [{"p": floor}]
