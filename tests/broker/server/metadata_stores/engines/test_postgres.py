"""The contract of metadata on PostgreSQL, and what only it can show."""

import itertools
from collections.abc import Iterator

import pytest

import metadata_servers
from fakes.posted_clock import PostedClock
from fakes.world import run
from magnetar_broker.server.metadata_stores.opening import open_engine
from magnetar_storage.interfaces import MetadataStore
from metadata_servers import Postgres
from storage.metadata.conformance import Conformance

NUMBERS = itertools.count()

if WHY := metadata_servers.why_no_postgres():
    pytest.skip(WHY, allow_module_level=True)


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
