"""The contract of metadata on etcd, and what only etcd can show."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import metadata_servers
from broker.server.metadata_stores.engines.more import opened
from certificates import Authority
from fakes.posted_clock import PostedClock
from fakes.world import run
from magnetar_broker.server.metadata_stores.access import MetadataAccess
from magnetar_broker.server.metadata_stores.opening import open_engine
from magnetar_storage.errors import AccessDenied, TooLarge, Unavailable
from magnetar_storage.interfaces import ABSENT, Change, MetadataStore, Resync, Versioned
from metadata_servers import Etcd
from ports import free_ports
from storage.metadata.conformance import Conformance

NUMBERS = itertools.count()

if WHY := metadata_servers.why_no_etcd():
    pytest.skip(WHY, allow_module_level=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    server = Etcd(tmp_path_factory.mktemp("etcd"))
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def store(server: Etcd) -> Iterator[MetadataStore]:
    clock = TestEtcd.clock = PostedClock()
    store = run(open_engine(server.place(next(NUMBERS)), clock, clock.post), clock)
    yield store
    run(store.close(), clock)


class TestEtcd(Conformance):
    """Everything."""

    clock = PostedClock()


async def test_a_value_beyond_the_limit_is_refused_and_the_others_are_not(server: Etcd) -> None:
    async with opened(server.place(next(NUMBERS))) as store:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(store.put("/a", b"1"))
            with pytest.raises(TooLarge, match="/large: a value of 2,000,013 bytes is too large"):
                await store.put("/large", bytes(2_000_000))
            tasks.create_task(store.put("/b", b"2"))
        with pytest.raises(TooLarge, match="/larger"):
            await store.put("/larger", bytes(9_000_000))
        assert await store.list("/") == ["/a", "/b"]


async def test_keys_and_values_may_have_any_character_and_byte(server: Etcd) -> None:
    async with opened(server.place(next(NUMBERS))) as store:
        keys = sorted(["/\0", "/\x01", "/é", "/\uffff", "/\U0010ffff", "/ \n%", "/" + "k" * 10_000])
        for key in keys:
            await store.put(key, bytes(range(256)) + key.encode())
        assert await store.list("/") == keys
        assert await store.list("/", "/\U0010ffff") == []
        for key, found in await store.read_under("/"):
            assert isinstance(found, Versioned) and found.value == bytes(range(256)) + key.encode()


async def test_more_writes_than_a_transaction_may_have(server: Etcd) -> None:
    async with opened(server.place(next(NUMBERS))) as store:
        async with asyncio.TaskGroup() as tasks:
            puts = [tasks.create_task(store.put(f"/{one:04}", b"", ABSENT)) for one in range(1000)]
        assert len({put.result() for put in puts}) < 30
        found: list[str] = []
        while page := await store.read_under("/", found[-1] if found else "", 300):
            found += [key for key, _ in page]
        assert found == [f"/{one:04}" for one in range(1000)]


async def test_the_next_endpoint_is_used_if_one_cannot_be_reached(server: Etcd) -> None:
    (closed,) = free_ports(1)
    url = f"etcd:http://127.0.0.1:{closed},{server.endpoint}/test/{next(NUMBERS)}"
    async with opened(url) as store:
        watch = store.watch("/")
        assert isinstance(await anext(watch), Resync)
        version = await store.put("/a", b"1")
        assert await anext(watch) == Change("/a", b"1", version)
    with pytest.raises(Unavailable, match=f"127.0.0.1:{closed}: nothing accepts connections there"):
        async with opened(f"etcd:http://127.0.0.1:{closed}"):
            pass


# Users and certificates --------------------------------------------------------------------------


async def test_a_user_logs_in_and_again_when_its_token_is_no_longer_known(tmp_path: Path) -> None:
    server = Etcd(tmp_path)
    try:
        await asyncio.to_thread(server.start)
        for path, message in (
            ("user/add", {"name": "root", "password": "s3cret"}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("user/add", {"name": "other", "password": "s3cret"}),
            ("enable", {}),
        ):
            await asyncio.to_thread(server.ask, f"/v3/auth/{path}", json.dumps(message).encode())
        (tmp_path / "password").write_text("s3cret\n")
        access = MetadataAccess(user="root", password_file=str(tmp_path / "password"))
        async with opened(server.place(1), access) as store:
            watch = store.watch("/")
            assert isinstance(await anext(watch), Resync)
            lease = await store.lease(60)
            version = await store.put("/a", b"1", lease=lease)
            assert await anext(watch) == Change("/a", b"1", version)
            server.kill()
            await asyncio.to_thread(server.start)
            later = await store.put("/a", b"2", version, lease=lease)
            assert await anext(watch) == Change("/a", b"2", later)
        for wrong in (
            MetadataAccess(),
            MetadataAccess(user="root", password="wr0ng"),
            MetadataAccess(user="nobody", password="s3cret"),
            MetadataAccess(user="other", password="s3cret"),
        ):
            with pytest.raises(AccessDenied, match="check the user, its password") as caught:
                async with opened(server.place(1), wrong):
                    pass
            assert "s3cret" not in str(caught.value) and "wr0ng" not in str(caught.value)
    finally:
        server.kill()


async def test_servers_and_brokers_identify_themselves_by_certificates(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    mine, client = authority.server("127.0.0.1"), authority.client("broker")
    options = [
        "--cert-file", mine.certificate, "--key-file", mine.key,
        "--client-cert-auth", "--trusted-ca-file", authority.trust,
        # With these its gateway identifies itself to its gRPC port.
        "--client-cert-file", client.certificate, "--client-key-file", client.key,
    ]  # fmt: skip
    server = Etcd(tmp_path, "https", options)
    right = MetadataAccess(
        trusted_certificates_file=authority.trust,
        certificate_file=client.certificate,
        key_file=client.key,
    )
    try:
        await asyncio.to_thread(server.start)
        async with opened(server.place(1), right) as store:
            version = await store.put("/a", b"1")
            assert await store.get("/a") == (b"1", version)
        for access, why in (
            (MetadataAccess(), "is not trusted"),
            (replace(right, trusted_certificates_file=other.trust), "is not trusted"),
            (replace(right, certificate_file="", key_file=""), "TLS failed|was closed"),
        ):
            with pytest.raises(Unavailable, match=f"{server.endpoint}: .*({why})"):
                async with opened(server.place(1), access):
                    pass
        plain = server.place(1).replace("https", "http")
        with pytest.raises(Unavailable, match="if etcd uses TLS, begin its address with https"):
            async with opened(plain):
                pass
    finally:
        server.kill()
