"""The contract of metadata on PostgreSQL, and what only it can show."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from operator import methodcaller
from pathlib import Path

import pytest

import metadata_servers
from broker.server.metadata_stores.engines.more import opened
from certificates import Authority
from fakes.posted_clock import PostedClock
from fakes.world import run
from magnetar_broker.server.metadata_stores.access import NO_ACCESS, MetadataAccess
from magnetar_broker.server.metadata_stores.expiring import SeenLease
from magnetar_broker.server.metadata_stores.opening import open_engine
from magnetar_broker.server.metadata_stores.urls import postgres_place
from magnetar_broker.server.runtime.asyncio_runtime import LoopClock
from magnetar_storage.errors import AccessDenied, BadVersion, TooLarge, Unavailable
from magnetar_storage.interfaces import ABSENT, Change, MetadataStore, Resync, Versioned
from metadata_servers import Postgres
from ports import free_ports
from storage.metadata.conformance import Conformance

NUMBERS = itertools.count()

if WHY := metadata_servers.why_no_postgres():
    pytest.skip(WHY, allow_module_level=True)

from magnetar_broker.server.metadata_stores.postgres_engine import PostgresEngine  # noqa: E402


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def store(server: Postgres) -> Iterator[MetadataStore]:
    clock = TestPostgres.clock = PostedClock()
    store = run(open_engine(server.place(next(NUMBERS)), clock, clock.post), clock)
    yield store
    run(store.close(), clock)


class TestPostgres(Conformance):
    """Everything."""

    clock = PostedClock()


# Limits -----------------------------------------------------------------------------------------


async def test_keys_and_values_beyond_the_limits_are_refused_and_the_others_are_not(
    server: Postgres,
) -> None:
    async with opened(server.place(next(NUMBERS))) as store:
        longest = "/" + "".join(chr(0x4E00 + one * 7919 % 20_000) for one in range(866))
        assert len(longest.encode()) == 2599
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(store.put("/a", b"1"))
            with pytest.raises(TooLarge, match="a key of 2,602 bytes is too large"):
                await store.put(f"{longest}xyz", b"")
            with pytest.raises(TooLarge, match="/large: a value of 16,777,"):
                await store.put("/large", bytes(16 << 20))
            tasks.create_task(store.put(longest, bytes(100)))
        assert await store.list("/") == ["/a", longest]


async def test_keys_and_values_may_have_any_character_and_byte(server: Postgres) -> None:
    async with opened(server.place(next(NUMBERS))) as store:
        keys = sorted(["/\0", "/\x01", "/é", "/\uffff", "/\U0010ffff", "/ \n%"])
        for key in keys:
            await store.put(key, bytes(range(256)) + key.encode())
        assert await store.list("/") == keys
        assert await store.list("/", "/\U0010ffff") == []
        for key, found in await store.read_under("/"):
            assert isinstance(found, Versioned) and found.value == bytes(range(256)) + key.encode()


async def test_more_writes_than_one_request_has(server: Postgres) -> None:
    async with opened(server.place(next(NUMBERS))) as store:
        watch = store.watch("/")
        assert isinstance(await anext(watch), Resync)
        async with asyncio.TaskGroup() as tasks:
            puts = [tasks.create_task(store.put(f"/{one:04}", b"", ABSENT)) for one in range(1500)]
        versions = [put.result() for put in puts]
        assert versions == sorted(set(versions))
        found: list[str] = []
        while page := await store.read_under("/", found[-1] if found else "", 400):
            found += [key for key, _ in page]
        assert found == [f"/{one:04}" for one in range(1500)]


async def test_a_large_value_reaches_a_watch(server: Postgres) -> None:
    async with opened(server.place(next(NUMBERS))) as store:
        watch = store.watch("/")
        assert isinstance(await anext(watch), Resync)
        # The value of a change that is not kept with it is read from its key.
        version = await store.put("/a", bytes(100_000))
        assert await anext(watch) == Change("/a", bytes(100_000), version)


# Users, certificates, tables --------------------------------------------------------------------


RULES = """hostssl all broker,nobody all scram-sha-256
host all broker,nobody all reject
"""


@pytest.fixture
def secured(server: Postgres, tmp_path: Path) -> Iterator[Postgres]:
    """Let the server want a password and TLS from user `broker`, who may do what is needed."""
    files = Authority(tmp_path).server("127.0.0.1")
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    for name, source in (("server.crt", files.certificate), ("server.key", files.key)):
        server.write(name, Path(source).read_text())
    server.ask("DROP ROLE IF EXISTS broker")
    server.ask("CREATE ROLE broker LOGIN PASSWORD 's3cret'")
    server.ask("ALTER SYSTEM SET ssl = on")
    server.write("pg_hba.conf", f"{RULES}{before}")
    server.reload()
    server.ask("GRANT CREATE ON DATABASE postgres TO broker")
    yield server
    server.write("pg_hba.conf", before)
    server.reload()
    server.ask("DROP OWNED BY broker CASCADE")


async def test_a_password_comes_from_the_url_or_a_file_or_the_environment(
    secured: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = next(NUMBERS)
    url = secured.place(number).replace("postgres@", "broker@") + "&sslmode=verify-full"
    url += f"&sslrootcert={tmp_path}/authority.pem"
    passes = tmp_path / "passes"
    passes.write_text("*:*:*:broker:s3cret\n")
    passes.chmod(0o600)
    (tmp_path / "password").write_text("s3cret\n")
    for access, variables, with_password in (
        (MetadataAccess(), {}, url.replace("broker@", "broker:s3cret@")),
        (MetadataAccess(), {"PGPASSWORD": "s3cret"}, url),
        (MetadataAccess(), {"PGPASSFILE": str(passes)}, url),
        (MetadataAccess(password_file=str(tmp_path / "password")), {}, url),
        (MetadataAccess(password="s3cret"), {"PGPASSWORD": "wr0ng"}, url),
    ):
        with monkeypatch.context() as environment:
            for name, value in variables.items():
                environment.setenv(name, value)
            async with opened(with_password, access) as store:
                await store.put("/a", b"1")
    for wrong in (url.replace("broker@", "broker:wr0ng@"), url.replace("broker@", "nobody:wr0ng@")):
        with pytest.raises(AccessDenied, match="check the user, its password") as caught:
            async with opened(wrong):
                pass
        assert "wr0ng" not in str(caught.value) and "\n" not in str(caught.value)


async def test_a_server_identifies_itself_by_its_certificate(
    secured: Postgres, tmp_path: Path
) -> None:
    url = secured.place(next(NUMBERS)).replace("postgres@", "broker:s3cret@")
    other = Authority(tmp_path, "other")
    right = MetadataAccess(trusted_certificates_file=str(tmp_path / "authority.pem"))
    async with opened(url, right) as store:
        await store.put("/a", b"1")
    for refused, access in (
        (url, replace(right, trusted_certificates_file=other.trust)),
        (f"{url}&sslmode=verify-full&sslrootcert={other.trust}", MetadataAccess()),
    ):
        with pytest.raises(Unavailable, match="certificate of the server is not trusted") as caught:
            async with opened(refused, access):
                pass
        assert "s3cret" not in str(caught.value)
    with pytest.raises(AccessDenied, match=r"pg_hba\.conf rejects connection"):
        async with opened(f"{url}&sslmode=disable"):
            pass


async def test_a_user_without_privileges_is_told(secured: Postgres, tmp_path: Path) -> None:
    secured.ask("REVOKE CREATE ON DATABASE postgres FROM broker")
    url = secured.place(next(NUMBERS)).replace("postgres@", "broker:s3cret@")
    with pytest.raises(AccessDenied, match="permission denied for database postgres: check the us"):
        async with opened(url):
            pass


async def test_several_brokers_create_the_tables_at_once(server: Postgres) -> None:
    url = server.place(next(NUMBERS))
    async with AsyncExitStack() as stack:
        stores = await asyncio.gather(*[stack.enter_async_context(opened(url)) for _ in range(8)])
        puts = [store.put("/leader", b"me", ABSENT) for store in stores]
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, BadVersion) for outcome in outcomes) == 7


async def test_tables_of_a_later_release_are_refused(server: Postgres) -> None:
    number = next(NUMBERS)
    async with opened(server.place(number)):
        pass
    server.ask(f"UPDATE test_{number}.state SET schema_version = 99")
    with pytest.raises(Unavailable, match="the tables have schema 99, this release knows 1"):
        async with opened(server.place(number)):
            pass


async def test_a_commit_is_synced_though_the_database_does_not_want_it(server: Postgres) -> None:
    server.ask("ALTER DATABASE postgres SET synchronous_commit = off")
    server.ask("ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'")
    try:
        loop = asyncio.get_running_loop()
        uptime = LoopClock(loop).uptime
        engine = PostgresEngine(postgres_place(server.place(next(NUMBERS))), NO_ACCESS, uptime)
        await engine.open()
        for setting, value in (
            ("synchronous_commit", "on"),
            ("default_transaction_isolation", "read committed"),
        ):
            show = methodcaller("fetchval", f"SELECT current_setting('{setting}')")
            assert await engine._writer.run(show) == value
        await engine.close()
    finally:
        server.ask("ALTER DATABASE postgres RESET ALL")


async def test_a_lease_that_is_renewed_at_the_last_moment_does_not_end(server: Postgres) -> None:
    uptime = LoopClock(asyncio.get_running_loop()).uptime
    engine = PostgresEngine(postgres_place(server.place(next(NUMBERS))), NO_ACCESS, uptime)
    await engine.open()
    lease = await engine.grant(60)
    seen = SeenLease(int(lease), 60, 0)
    assert await engine.renew(lease)
    await engine._end_unless_renewed(seen)
    assert await engine.renew(lease)
    await engine._end_unless_renewed(seen._replace(renewals=2))
    assert not await engine.renew(lease)
    await engine.close()


async def test_a_server_that_cannot_be_reached_or_used_is_named(server: Postgres) -> None:
    (closed,) = free_ports(1)
    for url, why in (
        (f"postgres://me:s3cret@127.0.0.1:{closed}/db", "nothing accepts connections there"),
        (f"postgres://postgres@127.0.0.1:{server.port}/other", 'database "other" does not exist'),
        ("postgres://me:s3cret@no.host.invalid/db", "the host name is not known"),
        ("postgres://me:s3cret@127.0.0.1/db?sslmode=some", "has a value that is not valid"),
        ("postgres://me:s3cret@127.0.0.1/db?ssl_min_protocol_version=x", "is not valid"),
    ):
        with pytest.raises(Unavailable, match=why) as caught:
            async with opened(url):
                pass
        assert "s3cret" not in str(caught.value) and "\n" not in str(caught.value)
