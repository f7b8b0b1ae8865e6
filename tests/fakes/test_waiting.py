"""Waiting for a state without an event: it ends with the state, or fails the test."""

import asyncio

import pytest

from fakes import waiting
from fakes.waiting import until


async def test_waiting_ends_when_it_is_so() -> None:
    came: list[int] = []
    asyncio.get_running_loop().call_later(0.002, came.append, 1)
    await until(lambda: came, "it has come")
    assert came


async def test_what_never_becomes_so_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "HANGS_SECONDS", 0)
    with pytest.raises(AssertionError, match="not so: it has come"):
        await until(lambda: False, "it has come")
