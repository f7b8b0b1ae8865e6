"""How many messages may wait for their receipts."""

import asyncio

import pytest

from magnetar.base.memory import MemoryLimit
from magnetar.producing.send_room import SendRoom


async def test_there_is_room_until_either_limit_is_reached() -> None:
    room = SendRoom("t", 3, 100, MemoryLimit())
    room.take(2, 99)
    assert room.is_free()
    room.take(1, 0)
    assert not room.is_free()
    room.give_back(1, 0)
    room.take(0, 1)
    assert not room.is_free()
    assert str(room.full()) == "2 messages to t have no receipt"


async def test_the_memory_of_the_client_limits_it_as_well() -> None:
    memory = MemoryLimit(1000)
    room, other = SendRoom("t", 100, 10_000, memory), SendRoom("u", 100, 10_000, memory)
    other.take(1, 1000)
    assert not room.is_free()
    assert "memory_limit is reached" in str(room.full())
    other.give_back(1, 1000)
    assert room.is_free()


@pytest.mark.parametrize("is_own", [True, False])
async def test_who_waits_is_woken_by_an_outcome_here_and_by_room_in_memory(is_own: bool) -> None:
    memory = MemoryLimit(1000)
    room, other = SendRoom("t", 1, 10_000, memory), SendRoom("u", 100, 10_000, memory)
    room.take(1, 10)
    other.take(1, 990)
    room.expect()
    waiting = asyncio.create_task(room.changed())
    await asyncio.sleep(0)
    assert not waiting.done()
    (room if is_own else other).give_back(1, 10)
    await waiting
