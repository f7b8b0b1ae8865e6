"""Opening a metadata store by its URL."""

import sys
from dataclasses import replace

import pytest

from broker.server.metadata_stores.scripted_etcd import Reply, scripted
from fakes.posted_clock import PostedClock
from fakes.world import run
from magnetar_broker.server.metadata_stores.access import NO_ACCESS
from magnetar_broker.server.metadata_stores.opening import SCHEMES, engine_of, open_metadata
from magnetar_broker.server.metadata_stores.urls import MetadataRefused
from magnetar_storage.errors import Unavailable
from ports import free_ports


def uptime() -> float:
    return 0.0


@pytest.mark.parametrize("url", ["", "host:2379", "zk:host:2181", "rocksdb:///tmp/a", "/a/b"])
def test_what_names_no_server_is_refused(url: str) -> None:
    with pytest.raises(MetadataRefused, match=r"expected etcd:https://host.* or postgres://user@"):
        engine_of(url, NO_ACCESS, uptime)


def test_every_scheme_has_a_function() -> None:
    assert set(SCHEMES) == {"etcd", "postgres", "postgresql"}


def test_without_asyncpg_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "asyncpg" or "metadata_stores.postgres_" in name:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(
        MetadataRefused, match=r"needs the package asyncpg: run pip install 'magnetar\[postgres\]'"
    ) as caught:
        engine_of("postgres://me:s3cret@host/db", NO_ACCESS, uptime)
    assert "s3cret" not in str(caught.value)


def test_files_of_tls_are_read_before_anything_is_requested() -> None:
    access = replace(NO_ACCESS, trusted_certificates_file="/missing/authority.pem")
    for url in ("etcd:https://host", "postgres://host/db"):
        with pytest.raises(MetadataRefused, match=r"cannot use /missing/authority\.pem for TLS"):
            engine_of(url, access, uptime)


@pytest.mark.parametrize("scheme", ["etcd:http", "postgres"])
def test_a_server_that_cannot_be_reached_is_one_sentence(scheme: str) -> None:
    clock = PostedClock()
    (port,) = free_ports(1)
    url = f"{scheme}://127.0.0.1:{port}"
    with pytest.raises(Unavailable, match=f"{port}: nothing accepts connections there") as caught:
        run(open_metadata(url, clock, clock.post), clock)
    assert "\n" not in str(caught.value)


async def test_a_server_of_something_else_is_told() -> None:
    async with scripted(Reply([b"<html>"])) as server:
        engine = engine_of(f"etcd:{server.endpoint}", NO_ACCESS, uptime)
        with pytest.raises(Unavailable, match="the answer is not one of etcd's gateway"):
            await engine.open()
        await engine.close()
