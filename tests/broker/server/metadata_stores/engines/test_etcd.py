"""The contract of metadata on etcd, and what only etcd can show."""

import itertools
from collections.abc import Iterator

import pytest

import metadata_servers
from fakes.posted_clock import PostedClock
from fakes.world import run
from magnetar_broker.server.metadata_stores.opening import open_engine
from magnetar_storage.interfaces import MetadataStore
from metadata_servers import Etcd
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
