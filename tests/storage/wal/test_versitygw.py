"""Sessions on versitygw, a server of S3, whose writers go on in threads while they are ended."""

import asyncio
import os
from collections.abc import Iterator
from functools import partial

import pytest

import object_servers
from effort import seeds
from magnetar_broker.server.object_stores.opening import open_objects
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock, ThreadWorkers
from magnetar_storage.errors import Fenced
from magnetar_storage.objects.creation import NONCE_BYTES
from magnetar_storage.objects.interfaces import Objects
from magnetar_storage.wal.fence import fence
from magnetar_storage.wal.reading import read_slots
from magnetar_storage.wal.session import WalSession
from magnetar_storage.wal.slot import Slot
from magnetar_storage.wal.slot_writer import SlotWriter, WalLimits

if WHY := object_servers.why_no_versitygw():
    pytest.skip(WHY, allow_module_level=True)

NO_LINGER = WalLimits(round_bytes=16 << 10, linger_seconds=0.001)
UNREPORTED = 40
"""The number of runs that wait for their report at any time."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as endpoint:
        yield endpoint


@pytest.fixture
def objects(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Objects:
    object_servers.use_credentials(monkeypatch)
    return open_objects(object_servers.place_at(endpoint, "wal"))


class Load:
    """A writer that appends a run for each that is reported."""

    def __init__(self, writer: SlotWriter, enough: int) -> None:
        self._writer = writer
        self._enough = enough
        self.is_running = asyncio.Event()
        """Set when `enough` runs are durable."""
        self.has_ended = asyncio.Event()
        self.appended = 0
        self.durable = 0
        writer.when_ended(lambda error: self.has_ended.set())
        for _ in range(UNREPORTED):
            self._append()

    def _append(self) -> None:
        number = self.appended
        self.appended += 1
        self._writer.append(3, number, [payload_of(number)], [1], partial(self._done, number))

    def _done(self, number: int, error: BaseException | None) -> None:
        if error is None:
            assert number == self.durable
            self.durable += 1
            if self.durable == self._enough:
                self.is_running.set()
            self._append()


def payload_of(number: int) -> bytes:
    return b"%d," % number * 100


@pytest.mark.parametrize("number", seeds(60))
async def test_nothing_is_reported_behind_the_end(objects: Objects, number: int) -> None:
    loop = asyncio.get_running_loop()
    workers, clock = ThreadWorkers(loop), LoopClock(loop)
    session = WalSession("", number)
    nonce = partial(os.urandom, NONCE_BYTES)
    uploads = 1 + number % 8
    writer = SlotWriter(objects, workers.transfers(uploads), clock, session, nonce, NO_LINGER)
    load = Load(writer, enough=1 + 100 * (number % 5))
    await load.is_running.wait()
    ends = await asyncio.gather(
        *(
            fence(objects, workers.transfers(4), clock, session, 0, nonce)
            for _ in range(1 + number % 3)
        )
    )
    durable = load.durable
    await load.has_ended.wait()
    await writer.close()
    assert isinstance(writer.failure, Fenced)
    (end,) = set(ends)
    assert writer.confirmed <= end
    assert await fence(objects, workers.transfers(4), clock, session, 0, nonce) == end
    entries: list[bytes] = []
    async for _, slot in read_slots(objects, workers.transfers(4), clock, session, 0, end):
        assert isinstance(slot, Slot)
        assert not slot.damage
        entries += [entry for place in slot.places for entry in slot.run(place).payloads]
    assert durable <= load.durable <= len(entries) <= load.appended
    assert entries == [payload_of(entry) for entry in range(len(entries))]
    workers.stop()
