"""The registry beside a plain model, with crashes and clients that come at once."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, run, start
from magnetar_broker.base.errors import SchemaRefused
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.schemas.registry import History, Registry
from magnetar_broker.schemas.types import Schema, SchemaType
from magnetar_storage.errors import Corrupt, Unavailable
from magnetar_storage.interfaces import Absent, Guard, Lease, Version, Versioned

NAMES = ("public/default/a", "public/default/b")
SCHEMAS = [
    Schema(SchemaType.EXTERNAL, b"%d" % number, (("n", str(number)),)) for number in range(4)
]


class MoodyMetadata(MemoryMetadata):
    """Every call takes a turn; a write may be the last one, done or not."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._moody_clock = clock
        self.writes_left: int | None = None
        self.last_is_done = False

    async def _turn(self) -> None:
        promise = self._moody_clock.promise()
        self._moody_clock.soon(lambda: promise.set_result(None))
        await promise

    async def _write(self, work: Coroutine[Any, Any, Any]) -> Any:
        await self._turn()
        if self.writes_left is not None:
            if self.writes_left <= 0:
                if self.writes_left == 0 and self.last_is_done:
                    await work
                work.close()
                self.writes_left -= 1
                raise Unavailable("the power is gone")
            self.writes_left -= 1
        return await work

    async def get(self, key: str) -> Versioned | None:
        await self._turn()
        return await super().get(key)

    async def put(
        self,
        key: str,
        value: bytes,
        expect: Version | Absent | None = None,
        lease: Lease | None = None,
        guard: Guard | None = None,
    ) -> Version:
        version: Version = await self._write(super().put(key, value, expect, lease, guard))
        return version

    async def delete(
        self, key: str, expect: Version | None = None, guard: Guard | None = None
    ) -> None:
        await self._write(super().delete(key, expect, guard))

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        await self._turn()
        return await super().list(prefix, after, limit)


async def agree(history: History) -> None:
    """Whatever comes is welcome."""


def digest(schema: Schema) -> str:
    return f"digest-of-{schema.data.decode()}"


@dataclass
class Model:
    """What is registered under one name."""

    next: int = 0
    versions: dict[int, Schema] = field(default_factory=dict)

    def added(self, schema: Schema) -> "Model":
        if schema in self.versions.values():
            return self
        return Model(self.next + 1, {**self.versions, self.next: schema})


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metadata = MoodyMetadata(self.clock)
        self.restart()

    def restart(self) -> None:
        self.metadata.writes_left = None
        self.registry = Registry(GuardedMetadata(self.metadata, None), self.clock)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return run(work, self.clock)

    def add(self, name: str, schema: Schema) -> int:
        return int(self.do(self.registry.add(name, schema, digest(schema), agree)))

    def state(self, name: str) -> Model:
        """All that can be read, version by version."""
        history = self.do(self.registry.history(name))
        found = [self.do(self.registry.version(name, number)) for number, _ in history.digests]
        return Model(history.next, {one.number: one.schema for one in found})


OPERATIONS = st.tuples(
    st.sampled_from(["add", "add", "add", "remove", "purge", "restart"]),
    st.sampled_from(NAMES),
    st.sampled_from(SCHEMAS),
    st.none() | st.tuples(st.integers(0, 4), st.booleans()),
)


@settings(max_examples=examples(150))
@given(st.lists(OPERATIONS, max_size=14))
def test_as_a_plain_model_has_it(operations: list[tuple[str, str, Schema, Any]]) -> None:
    world = World()
    models = {name: Model() for name in NAMES}
    for kind, name, schema, crash in operations:
        before = models[name]
        after = {
            "add": before.added(schema),
            "remove": Model(before.next + 1, {}),
            "purge": Model(),
            "restart": before,
        }[kind]
        if crash is not None:
            world.metadata.writes_left, world.metadata.last_is_done = crash
        try:
            _do(world, kind, name, schema, before, after)
        except Unavailable:
            # The broker lives on, and knows what was written; so does the next one.
            world.metadata.writes_left = None
            lived_on = world.state(name)
            assert lived_on in (before, after)
            world.restart()
            assert world.state(name) == lived_on
            models[name] = lived_on
        else:
            models[name] = after
        world.metadata.writes_left = None
        assert {each: world.state(each) for each in NAMES} == models


def _do(world: World, kind: str, name: str, schema: Schema, before: Model, after: Model) -> None:
    if kind == "add":
        assert after.versions[world.add(name, schema)] == schema
    elif kind == "remove":
        assert world.do(world.registry.remove(name)) == before.next
    elif kind == "purge":
        world.do(world.registry.purge(name))
    else:
        world.restart()


@given(st.lists(st.sampled_from(SCHEMAS), min_size=1, max_size=8), st.booleans())
@settings(max_examples=examples(60))
def test_concurrent_requests(schemas: list[Schema], known: bool) -> None:
    world = World()
    if known:
        world.add(NAMES[0], SCHEMAS[0])
    asked = [start(world.registry.add(NAMES[0], one, digest(one), agree)) for one in schemas]
    world.clock.pump()
    state = world.state(NAMES[0])
    assert [state.versions[one.result()] for one in asked] == schemas
    assert state.next == len(state.versions) == len({*schemas, *SCHEMAS[: int(known)]})


def test_two_brokers_that_register_at_once() -> None:
    world = World()
    other = Registry(GuardedMetadata(world.metadata, None), world.clock)
    schemas = {world.registry: SCHEMAS[0], other: SCHEMAS[1]}
    asked = [start(at.add(NAMES[0], one, digest(one), agree)) for at, one in schemas.items()]
    world.clock.pump()
    world.restart()
    numbers = [one.result() for one in asked]
    assert sorted(numbers) == [0, 1]
    assert [world.state(NAMES[0]).versions[number] for number in numbers] == SCHEMAS[:2]


def test_an_incompatible_producer_stores_nothing() -> None:
    world = World()

    async def disagree(history: History) -> None:
        raise SchemaRefused("no")

    with pytest.raises(SchemaRefused):
        world.do(world.registry.add(NAMES[0], SCHEMAS[0], "digest", disagree))
    assert world.state(NAMES[0]) == Model()
    assert world.add(NAMES[0], SCHEMAS[0]) == 0


def test_a_version_that_is_missing_is_damage() -> None:
    world = World()
    world.add(NAMES[0], SCHEMAS[0])
    (key,) = world.do(world.metadata.list("/schema-versions/"))
    world.do(world.metadata.delete(key))
    with pytest.raises(Corrupt, match="restore"):
        world.do(world.registry.version(NAMES[0], 0))


def test_nothing_is_left_of_what_was_purged() -> None:
    world = World()
    for schema in SCHEMAS:
        world.add(NAMES[0], schema)
    world.do(world.registry.purge(NAMES[0]))
    assert world.do(world.metadata.list("")) == []


@pytest.mark.parametrize("writes", range(4))
def test_a_namespace_lists_what_an_interrupted_purge_has_left(writes: int) -> None:
    world = World()
    for schema in SCHEMAS[:3]:
        world.add(NAMES[0], schema)
    world.metadata.writes_left = writes
    with pytest.raises(Unavailable):
        world.do(world.registry.purge(NAMES[0]))
    world.restart()
    assert world.do(world.registry.names("public/default")) == [NAMES[0]]
    world.do(world.registry.purge(NAMES[0]))
    assert world.do(world.registry.names("public/default")) == []
    assert world.do(world.metadata.list("")) == []


def test_more_histories_than_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magnetar_broker.schemas.registry.MAX_KNOWN", 2)
    world = World()
    names = [f"public/default/{number}" for number in range(6)]
    for name in names:
        world.add(name, SCHEMAS[0])
    assert [world.state(name).next for name in names] == [1] * 6
    assert len(world.registry._known) == 2
