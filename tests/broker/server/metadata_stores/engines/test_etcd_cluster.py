"""Three members of etcd, of which one after the other is killed or suspended under load."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

import metadata_servers
from broker.server.metadata_stores.engines.histories import a_history
from broker.server.metadata_stores.engines.more import opened
from magnetar_storage.interfaces import ABSENT
from metadata_servers import EtcdCluster

NUMBERS = itertools.count()

if WHY := metadata_servers.why_no_etcd():
    pytest.skip(WHY, allow_module_level=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path_factory.mktemp("etcd"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


async def test_writes_go_on_while_any_one_member_is_down(cluster: EtcdCluster) -> None:
    async with a_history(cluster.place(next(NUMBERS))) as (history, _):
        for member in cluster.members:
            await asyncio.to_thread(member.kill)
            await history.accept(20)
            await asyncio.to_thread(member.start)


async def test_writes_go_on_while_any_one_member_is_suspended(cluster: EtcdCluster) -> None:
    async with a_history(cluster.place(next(NUMBERS))) as (history, _):
        for member in cluster.members:
            member.suspend()
            try:
                await history.accept(20)
            finally:
                member.go_on()


async def test_a_lease_outlasts_every_member(cluster: EtcdCluster) -> None:
    async with opened(cluster.place(next(NUMBERS))) as store:
        lease = await store.lease(40)
        version = await store.put("/leader", b"me", ABSENT, lease)
        first = lease.deadline
        for member in cluster.members:
            await asyncio.to_thread(member.kill)
            assert await store.get("/leader") == (b"me", version)
            await asyncio.to_thread(member.start)
        while lease.deadline == first and not lease.is_lost:
            await store.get("/leader")
        assert not lease.is_lost
        assert await store.get("/leader") == (b"me", version)
