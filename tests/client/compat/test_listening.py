"""Threads and tasks that feed an application's listeners."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from fakes.client_clock import ManualClock
from fakes.client_entries import entry_of
from fakes.waiting import until
from magnetar.base.errors import Damaged, InvalidName, MagnetarError, OperationTimeout
from magnetar.compat.listening import AGAIN_S, Listening
from magnetar.messages import Message
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.ids import MessageId


@pytest.mark.parametrize(
    ("failure", "goes_on"),
    [
        (OperationTimeout("the schema did not come"), True),
        (InvalidName(pb.InvalidTopicName, "no topic"), False),
        (Damaged("t", MessageId(1, 2), 1, "a checksum"), True),
    ],
)
async def test_a_failure_that_may_pass_does_not_end_a_listener(
    failure: MagnetarError, goes_on: bool, clock: ManualClock
) -> None:
    coming: asyncio.Queue[Message | MagnetarError] = asyncio.Queue()
    told: list[Message] = []

    async def receive() -> Message:
        found = await coming.get()
        if isinstance(found, MagnetarError):
            raise found
        return found

    [first, second] = entry_of([b"a", b"b"]).messages()
    for one in (first, failure, second):
        coming.put_nowait(one)
    with ThreadPoolExecutor(1) as thread:
        listener = Listening(thread, receive, told.append, clock)
        if goes_on:
            await until(clock.pauses_s, "it pauses")
            assert told == [first]
            clock.advance(AGAIN_S)
            await until(lambda: len(told) == 2, "both were told")
        else:
            await listener._task
        listener.close()
    assert told == ([first, second] if goes_on else [first])
