"""Servers of metadata that are killed, started again and suspended while brokers write."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import aclosing

import pytest

import metadata_servers
from broker.server.metadata_stores.engines.histories import a_history
from broker.server.metadata_stores.engines.more import opened
from effort import seeds
from magnetar_broker.server.metadata_stores.access import NO_ACCESS
from magnetar_broker.server.metadata_stores.opening import engine_of
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock
from magnetar_storage.errors import LeaseEnded, Unavailable
from magnetar_storage.interfaces import ABSENT, Change, Resync
from magnetar_storage.metadata.nonces import FORMAT
from magnetar_storage.metadata.writes import Put
from metadata_servers import Etcd, MetadataServer, Postgres

NUMBERS = itertools.count()


@pytest.fixture(scope="module", params=["etcd", "postgres"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MetadataServer]:
    server: Etcd | Postgres
    if request.param == "etcd":
        if why := metadata_servers.why_no_etcd():
            pytest.skip(why)
        server = Etcd(tmp_path_factory.mktemp("etcd"))
    else:
        if why := metadata_servers.why_no_postgres():
            pytest.skip(why)
        server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.mark.parametrize("seed", seeds(3))
async def test_no_accepted_write_is_lost_when_the_server_is_killed(
    server: MetadataServer, seed: int
) -> None:
    number = next(NUMBERS)
    async with a_history(server.place(number)) as (history, _):
        for _ in range(2):
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await history.accept(10 + seed)
            await asyncio.to_thread(server.compact, number)


async def test_no_accepted_write_is_lost_when_the_server_is_suspended(
    server: MetadataServer,
) -> None:
    async with a_history(server.place(next(NUMBERS))) as (_, store):
        server.suspend()
        try:
            # As long as it is suspended nothing is answered: a read ends without an answer.
            with pytest.raises(Unavailable):
                await store.get("/history/0")
        finally:
            server.go_on()


# Watches -----------------------------------------------------------------------------------------


async def test_a_watch_misses_nothing_while_the_server_is_down(server: MetadataServer) -> None:
    url = server.place(next(NUMBERS))
    async with opened(url) as store, opened(url) as other:
        watch = store.watch("/t/")
        assert isinstance(await anext(watch), Resync)
        first = await other.put("/t/a", b"1")
        assert await anext(watch) == Change("/t/a", b"1", first)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        second = await other.put("/t/a", b"2", first)
        await other.delete("/t/a", second)
        assert await anext(watch) == Change("/t/a", b"2", second)
        change = await anext(watch)
        assert isinstance(change, Change) and (change.key, change.value) == ("/t/a", None)


async def test_changes_that_the_server_has_forgotten_are_a_resync(server: MetadataServer) -> None:
    number = next(NUMBERS)
    url = server.place(number)
    loop = asyncio.get_running_loop()
    engine = engine_of(url, NO_ACCESS, LoopClock(loop).uptime)
    await engine.open()
    async with opened(url) as store, aclosing(engine.changes("/t/", None)) as changes:
        begin = (await anext(changes)).position
        for value in (b"1", b"2", b"3"):
            await store.put("/t/a", value)
        await asyncio.to_thread(server.compact, number)
        async with aclosing(engine.changes("/t/", begin)) as later:
            batch = await anext(later)
            assert batch.changes is None and batch.position > begin
            last = await store.put("/t/a", b"4")
            while not (batch := await anext(later)).changes:
                pass  # a notice of the position alone
            assert [change.version for change in batch.changes] == [last]
    await engine.close()


# Leases ------------------------------------------------------------------------------------------


async def test_a_lease_outlasts_a_restart_of_the_server(server: MetadataServer) -> None:
    url = server.place(next(NUMBERS))
    async with opened(url) as store, opened(url) as other:
        lease = await store.lease(120)
        version = await store.put("/leader", b"me", ABSENT, lease)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        assert await other.get("/leader") == (b"me", version)
        assert await store.put("/leader", b"still me", version, lease)
        assert not lease.is_lost
        await store.revoke(lease)
        assert await other.get("/leader") is None


async def test_a_lease_is_renewed_while_the_event_loop_is_busy(server: MetadataServer) -> None:
    url = server.place(next(NUMBERS))
    async with opened(url) as store:
        lease = await store.lease(4)
        version = await store.put("/leader", b"me", ABSENT, lease)
        first = lease.deadline
        clock = LoopClock(asyncio.get_running_loop())
        while clock.uptime() < first and not lease.is_lost:
            pass  # this test has the loop
        assert lease.deadline > first and not lease.is_lost
        assert await store.get("/leader") == (b"me", version)


async def test_keys_of_a_process_that_has_ended_go(server: MetadataServer) -> None:
    url = server.place(next(NUMBERS))
    async with opened(url) as store:
        watch = store.watch("/")
        assert isinstance(await anext(watch), Resync)
        loop = asyncio.get_running_loop()
        # As a process that was killed: nothing renews its lease, nor ends it.
        engine = engine_of(url, NO_ACCESS, LoopClock(loop).uptime)
        await engine.open()
        lease = await engine.grant(2)
        await engine.write([Put("/leader", FORMAT + bytes(12), ABSENT, lease)])
        await engine.close()
        assert isinstance(await anext(watch), Change)
        gone = await anext(watch)
        assert isinstance(gone, Change) and (gone.key, gone.value) == ("/leader", None)
        await store.put("/leader", b"me", ABSENT)


async def test_an_owner_whose_server_is_away_loses_its_lease_at_the_deadline(
    server: MetadataServer,
) -> None:
    url = server.place(next(NUMBERS))
    loop = asyncio.get_running_loop()
    async with opened(url) as store:
        lease = await store.lease(3)
        lost = asyncio.Event()
        lease.when_lost(lost.set)
        server.suspend()
        try:
            await lost.wait()
            assert LoopClock(loop).uptime() >= lease.deadline
        finally:
            server.go_on()
        with pytest.raises(LeaseEnded):
            await store.put("/leader", b"me", lease=lease)
