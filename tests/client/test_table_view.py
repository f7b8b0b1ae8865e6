"""A table view whose reader meets damaged entries."""

import asyncio
from typing import Any, cast

import pytest

from fakes.client_clock import ManualClock
from fakes.client_entries import entry_of
from fakes.waiting import until
from magnetar.base.errors import Damaged
from magnetar.messages import Message, Outgoing
from magnetar.reader import Reader
from magnetar.table_view import TableView
from magnetar_proto.ids import MessageId


class ScriptedReader:
    """Returns and raises what the test puts into `coming`."""

    topic = "t"

    def __init__(self) -> None:
        self.coming: asyncio.Queue[list[Message] | Damaged] = asyncio.Queue()

    async def read_batch(self) -> list[Message]:
        found = await self.coming.get()
        if isinstance(found, Damaged):
            raise found
        return found

    async def has_message_available(self) -> bool:
        return True

    async def close(self) -> None:
        pass


async def test_damage_is_raised_by_refresh_and_the_rest_comes_later(clock: ManualClock) -> None:
    reader = ScriptedReader()
    view: TableView[Any] = TableView(cast(Reader[Any], reader), clock)
    reader.coming.put_nowait(Damaged("t", MessageId(1, 2), 1, "a checksum"))
    with pytest.raises(Damaged):
        await clock.drive(view.refresh(), 1)
    messages = entry_of([Outgoing(b"a", key="k")]).messages()
    reader.coming.put_nowait(messages)
    await until(lambda: view.get("k") == b"a", "what comes after the damage is there")
    await view.close()
