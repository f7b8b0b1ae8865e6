"""The queue between the connection and the application."""

import asyncio
from dataclasses import dataclass

import pytest

from magnetar.errors import Closed, OperationTimeout
from magnetar.inbox import Inbox


class Counting:
    """A source that counts what was taken."""

    def __init__(self) -> None:
        self.permits = 0

    def taken(self, permits: int) -> None:
        self.permits += permits


@dataclass(frozen=True)
class Thing:
    name: str
    source: Counting
    permits: int = 1
    size: int = 1


async def test_items_come_in_order_and_are_counted_by_source() -> None:
    inbox: Inbox[Thing] = Inbox()
    one, two = Counting(), Counting()
    inbox.put([Thing("a", one), Thing("b", two, permits=5), Thing("c", one)])
    assert [item.name for item in await inbox.take(2, None)] == ["a", "b"]
    assert (one.permits, two.permits) == (1, 5)
    assert [item.name for item in await inbox.take(2, None)] == ["c"]
    assert one.permits == 2


async def test_waiting_ends_with_the_first_item() -> None:
    inbox: Inbox[Thing] = Inbox()
    waiters = [asyncio.create_task(inbox.take(1, 30)) for _ in range(2)]
    await asyncio.sleep(0)
    inbox.put([Thing("a", Counting()), Thing("b", Counting())])
    taken = [item.name for waiter in waiters for item in await waiter]
    assert sorted(taken) == ["a", "b"]


async def test_an_empty_inbox_times_out() -> None:
    inbox: Inbox[Thing] = Inbox()
    with pytest.raises(OperationTimeout, match=r"within 0\.01 s"):
        await inbox.take(1, 0.01)


async def test_a_failure_comes_after_what_was_received() -> None:
    inbox: Inbox[Thing] = Inbox()
    inbox.put([Thing("a", Counting())])
    inbox.fail(Closed("over"))
    inbox.fail(Closed("again"))
    assert len(await inbox.take(5, None)) == 1
    with pytest.raises(Closed, match="over"):
        await inbox.take(5, None)


async def test_a_failure_wakes_the_waiters() -> None:
    inbox: Inbox[Thing] = Inbox()
    waiter = asyncio.create_task(inbox.take(1, None))
    await asyncio.sleep(0)
    inbox.fail(Closed("over"))
    with pytest.raises(Closed):
        await waiter


async def test_a_source_can_take_back_what_was_not_taken() -> None:
    inbox: Inbox[Thing] = Inbox()
    one, two = Counting(), Counting()
    inbox.put([Thing("a", one, 3), Thing("b", two), Thing("c", one, 4)])
    assert inbox.drop(one) == 7
    assert inbox.drop(one) == 0
    assert [item.name for item in await inbox.take(9, None)] == ["b"]
