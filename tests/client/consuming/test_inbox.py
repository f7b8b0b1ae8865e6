"""The queue between the connection and the application."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.client_clock import ManualClock
from magnetar.base.errors import Closed, OperationTimeout, Unreadable
from magnetar.consuming.inbox import Failure, Inbox
from magnetar_proto.ids import EARLIEST


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


async def test_an_empty_inbox_times_out(clock: ManualClock) -> None:
    inbox: Inbox[Thing] = Inbox(clock=clock)
    taking = asyncio.create_task(inbox.take(1, 2))
    await asyncio.sleep(0)
    clock.advance(1.9)
    await asyncio.sleep(0)
    assert not taking.done()
    clock.advance(0.1)
    with pytest.raises(OperationTimeout, match=r"within 2 s"):
        await taking


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


class Waiters:
    """Tasks that take from one inbox at a time, and what is done to it meanwhile."""

    def __init__(self) -> None:
        self.inbox: Inbox[Thing] = Inbox()
        self.source = Counting()
        self.takers: list[tuple[int, asyncio.Task[list[Thing]]]] = []
        """Each with how many things it takes at most."""
        self.put_items = self.dropped = self.claimed = 0

    def take(self, most: int) -> None:
        self.takers.append((most, asyncio.create_task(self.inbox.take(most, None))))

    def cancel(self, number: int) -> None:
        if self.takers:
            self.takers[number % len(self.takers)][1].cancel()

    def put(self, count: int) -> None:
        first = self.put_items
        self.inbox.put([Thing(str(first + number), self.source) for number in range(count)])
        self.put_items += count
        claimed = self.inbox.claim(count)
        assert 0 <= claimed <= count
        self.claimed += claimed

    def put_failure(self) -> None:
        self.inbox.put_failure(Failure(Unreadable("damaged", EARLIEST), self.source, 1))
        self.put_items += 1

    def drop(self) -> None:
        self.dropped += self.inbox.drop(self.source)

    def wake(self) -> None:
        self.inbox.wake()

    async def settle(self) -> None:
        """Let every task run until it waits for something that is put."""
        for _ in range(10):
            await asyncio.sleep(0)
        assert not self.inbox or all(task.done() for _, task in self.takers), "one sleeps"

    async def check(self) -> None:
        """Nothing was lost, nor taken twice."""
        await self.settle()
        for _, task in self.takers:
            task.cancel()
        outcomes = await asyncio.gather(*(task for _, task in self.takers), return_exceptions=True)
        names: list[str] = []
        raised = 0
        for (most, _), outcome in zip(self.takers, outcomes, strict=True):
            if isinstance(outcome, list):
                assert 1 <= len(outcome) <= most
                names += [thing.name for thing in outcome]
            raised += isinstance(outcome, Unreadable)
        assert len(names) == len(set(names))
        assert self.source.permits == len(names) + raised
        assert self.source.permits + self.dropped + len(self.inbox) == self.put_items
        assert self.claimed <= self.put_items


STEPS = st.one_of(
    st.tuples(st.just("take"), st.integers(1, 5)),
    st.tuples(st.just("put"), st.integers(1, 8)),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.sampled_from((("put_failure",), ("drop",), ("wake",), ("settle",))),
)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_several_that_wait_get_all_that_comes(steps: list[tuple[str, int] | tuple[str]]) -> None:
    """Whatever is put, dropped and cancelled while they wait, and in whichever order they run."""

    async def run() -> None:
        waiters = Waiters()
        for name, *count in steps:
            done = getattr(waiters, name)(*count)
            if done is not None:
                await done
        await waiters.check()

    asyncio.run(run())


async def test_what_is_claimed_is_what_the_last_one_waits_for() -> None:
    inbox: Inbox[Thing] = Inbox()
    waiters = [asyncio.create_task(inbox.take(count, None)) for count in (5, 2)]
    await asyncio.sleep(0)
    inbox.put([Thing(str(number), Counting()) for number in range(9)])
    assert (inbox.claim(9), inbox.claim(9)) == (2, 0)
    assert [len(await waiter) for waiter in waiters] == [5, 2]
    assert inbox.claim(9) == 0, "nobody waits"
