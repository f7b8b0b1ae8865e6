"""Deleting topics, namespaces and tenants, and what remains when that is interrupted."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from fakes.deleting import PARTED, PLAIN, delete, filled
from fakes.named_worlds import NAMESPACE, NamedWorld, named
from magnetar_broker.base.errors import (
    AlreadyExists,
    InUse,
    NamespaceNotFound,
    NotAllowed,
    NotEmpty,
    NotReady,
    TenantNotFound,
    TopicNotFound,
)
from magnetar_broker.base.metadata_keys import DELETIONS, POLICIES
from magnetar_broker.base.transaction_ids import COORDINATORS
from magnetar_broker.names.deletion.namespace_deletion import START_SECONDS
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.names.tenants import Tenant
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import MAX_PRODUCERS, RETENTION
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import Unavailable
from magnetar_storage.runtime.execution import yield_turn


def test_a_topic_is_deleted_with_all_that_it_had() -> None:
    world = filled()
    others = world.store.ids()
    world.publish(named("more"), b"c")
    world.subscribe(named("more"))
    world.do(world.directory.enforcement.set(named("more"), {MAX_PRODUCERS: 3}))
    received: list[tuple[str, bool]] = []
    world.directory.events.watch(
        NAMESPACE, lambda name, there: received.append((name.local, there))
    )
    delete(world, named("more"))
    assert world.store.ids() == others
    assert "more" not in str(world.stored("/"))
    assert received == [("more", False)]
    with pytest.raises(TopicNotFound, match="more"):
        delete(world, named("more"))


def test_a_partitioned_topic_goes_with_its_partitions() -> None:
    world = filled()
    received: list[tuple[str, bool]] = []
    world.directory.events.watch(
        NAMESPACE, lambda name, there: received.append((name.local, there))
    )
    delete(world, PARTED)
    assert "parted" not in str(world.stored("/"))
    assert world.names() == ["plain"]
    assert received == [(f"parted-partition-{index}", False) for index in range(3)]
    delete(world, PLAIN)
    assert world.store.ids() == set()
    assert world.stored(POLICIES) == world.stored(DELETIONS) == []


def test_each_kind_is_deleted_in_its_own_way() -> None:
    world = filled()
    with pytest.raises(AlreadyExists, match="is a partitioned topic"):
        world.do(world.directory.deletion.topics.delete(PARTED, force=True))
    with pytest.raises(AlreadyExists, match="is not partitioned"):
        world.do(world.directory.deletion.topics.delete_partitioned(PLAIN, force=True))
    with pytest.raises(TopicNotFound):
        world.do(world.directory.deletion.topics.delete_partitioned(named("nothing"), force=True))
    with pytest.raises(TopicNotFound):
        world.do(world.directory.deletion.topics.delete(PARTED.with_partition(3), force=True))


def test_what_a_partition_holds_is_deleted_alone() -> None:
    world = filled()
    delete(world, PARTED.with_partition(0))
    delete(world, PARTED.with_partition(1))  # it was never used
    assert len(world.names()) == 4
    assert world.topic(PARTED.with_partition(0)).subscriptions == {}
    assert list(world.topic(PARTED.with_partition(2)).subscriptions) == ["sub"]
    assert world.do(world.directory.policies.explicit(RETENTION, PARTED)) == Retention(1, 1)  # type: ignore[arg-type]


def test_clients_are_in_the_way_unless_it_is_by_force() -> None:
    world = filled()
    for name in (PLAIN, PARTED):
        member = name if name is PLAIN else name.with_partition(2)
        producing, _ = world.producer(member)
        consuming, _ = world.consumer(member)
        with pytest.raises(InUse, match="or delete it by force"):
            delete(world, name)
        world.publish(member, b"still there")
        delete(world, name, force=True)
        assert producing.closed_producers == [1] and consuming.closed_consumers == [1]
    assert world.names() == []


def test_a_client_that_reconnects_finds_an_empty_topic() -> None:
    world = filled()
    old = world.topic(PLAIN).log.position(0)  # type: ignore[union-attr]
    gate = world.clock.promise()
    put = world.metadata.put

    async def slowly(*asked: Any) -> Any:
        await gate
        return await put(*asked)

    world.metadata.put = slowly  # type: ignore[assignment]
    deleting = world.begin(world.directory.deletion.topics.delete(PLAIN, force=True))
    coming = world.begin(world.broker.topic(PLAIN, create=True))
    world.clock.pump()
    assert not coming.done()
    gate.set_result(None)
    world.clock.pump()
    deleting.result()
    topic = coming.result()
    assert topic.log.end == 0 and topic.subscriptions == {}
    world.publish(PLAIN, b"new")
    assert topic.log.position(0) > old


def test_where_nothing_is_created_by_use_it_stays_away() -> None:
    world = filled()
    world.settings = world.settings.__class__(allow_auto_topic_creation=False)
    world.restart()
    delete(world, PLAIN, force=True)
    with pytest.raises(TopicNotFound):
        world.topic(PLAIN)


def test_a_topic_that_is_not_persistent() -> None:
    world = NamedWorld()
    name = named("fleeting", domain="non-persistent")
    connection, _ = world.producer(name)
    before = world.topic(name)
    with pytest.raises(InUse):
        delete(world, name)
    delete(world, name, force=True)
    assert connection.closed_producers == [1]
    with pytest.raises(NotReady):
        before.check_open()
    world.part(name, 2)
    delete(world, name)
    assert world.do(world.directory.catalogue.partitions(name)) == 0


def test_a_damaged_topic_can_be_deleted() -> None:
    world = filled()
    world.do(world.broker.close())
    for segment in list(world.store.ids()):
        world.do(world.store.delete(segment))
    world.start()
    delete(world, PLAIN)
    delete(world, PARTED)
    assert world.names() == []


# Namespaces and tenants -----------------------------------------------------------------


def test_a_namespace_with_topics_goes_only_by_force() -> None:
    world = filled()
    world.part(named("also", domain="non-persistent"), 2)
    world.do(world.directory.enforcement.set(NAMESPACE, {MAX_PRODUCERS: 3}))
    connection, _ = world.producer(PLAIN)
    with pytest.raises(NotEmpty, match="by force"):
        delete(world, NAMESPACE)
    world.publish(PLAIN, b"still there")
    delete(world, NAMESPACE, force=True)
    assert connection.closed_producers == [1]
    assert world.store.ids() == set()
    assert "public/default" not in str(world.stored("/"))
    with pytest.raises(NamespaceNotFound):
        delete(world, NAMESPACE, force=True)


def test_an_empty_namespace_goes() -> None:
    world = NamedWorld(allow_auto_namespace_creation=False)
    world.do(world.directory.namespaces.ensure(NamespaceName.parse("tenant/space")))
    world.do(world.directory.enforcement.set("tenant/space", {MAX_PRODUCERS: 3}))
    delete(world, "tenant/space")
    assert "tenant/space" not in str(world.stored("/"))
    with pytest.raises(NamespaceNotFound):
        world.topic(named("late", "tenant/space"))
    world.do(world.directory.namespaces.ensure(NamespaceName.parse("tenant/space")))
    assert world.do(world.directory.policies.explicit(MAX_PRODUCERS, "tenant/space")) is None  # type: ignore[arg-type]


def test_no_topics_are_created_in_a_namespace_that_is_being_deleted() -> None:
    world = filled()
    gate = world.clock.promise()
    put = world.metadata.put

    async def slowly(*asked: Any) -> Any:
        await gate
        return await put(*asked)

    world.metadata.put = slowly  # type: ignore[assignment]
    deleting = world.begin(world.directory.deletion.namespace(NAMESPACE, force=True))
    world.metadata.put = put  # type: ignore[method-assign]
    for refused in (
        world.broker.topic(named("new"), create=True),
        world.directory.creation.plain(named("new"), {}),
        world.directory.partitions(named("new"), create=True),
    ):
        with pytest.raises(NamespaceNotFound, match="deleted"):
            world.do(refused)
    gate.set_result(None)
    world.clock.pump()
    deleting.result()
    with pytest.raises(NamespaceNotFound, match="create it with PUT"):
        world.topic(named("new"))


def test_upkeep_and_others_wait_for_a_deletion_that_is_under_way() -> None:
    world = filled()
    gate = world.clock.promise()
    delete_key = world.metadata.delete

    async def slowly(*asked: Any) -> None:
        await gate
        await delete_key(*asked)

    world.metadata.delete = slowly  # type: ignore[assignment]
    jobs = [world.begin(world.directory.deletion.namespace(NAMESPACE, force=True))]
    world.clock.pump()
    jobs.append(world.begin(world.directory.jobs.run("deleting")))
    second = world.begin(world.directory.deletion.namespace(NAMESPACE, force=True))
    growing = world.begin(world.directory.creation.grow(PARTED, 5))
    gate.set_result(None)
    world.clock.pump()
    for job in jobs:
        job.result()
    for late in (second, growing):
        with pytest.raises(NamespaceNotFound):
            late.result()
    assert world.store.ids() == set() and "default" not in str(world.stored("/"))
    with pytest.raises(NamespaceNotFound, match="create it"):
        world.topic(PLAIN)


def test_a_tenant_with_namespaces_goes_only_by_force() -> None:
    world = filled()
    with pytest.raises(NotEmpty, match="has namespaces"):
        delete(world, "public")
    delete(world, "public", force=True)
    assert "public" not in str(world.stored("/"))
    with pytest.raises(TenantNotFound):
        delete(world, "public", force=True)


# Interrupted ----------------------------------------------------------------------------


def whole(world: NamedWorld) -> bool:
    """Whether both topics are there with everything; else nothing of what was deleted may be."""
    for name in (PLAIN, PARTED.with_partition(0), PARTED.with_partition(2)):
        topic = world.topic(name, create=False)
        assert topic.log.end == 2  # type: ignore[union-attr]
        assert list(topic.subscriptions) == ["sub"]
        assert world.do(world.directory.policies.explicit(RETENTION, name)) == Retention(1, 1)  # type: ignore[arg-type]
    return True


def delete_in_use(world: NamedWorld) -> None:
    world.producer(PLAIN)
    delete(world, PLAIN, force=True)


CASES: dict[str, Callable[[NamedWorld], None]] = {
    "topic": lambda world: delete(world, PLAIN),
    "partitioned": lambda world: delete(world, PARTED),
    "forced": delete_in_use,
    "namespace": lambda world: delete(world, NAMESPACE, force=True),
    "tenant": lambda world: delete(world, "public", force=True),
}


@pytest.mark.parametrize("unloaded", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_wherever_the_power_fails_all_is_there_or_nothing(case: str, unloaded: bool) -> None:
    writes, outcomes = 0, set()
    while True:
        world = filled(allow_auto_namespace_creation=False)
        if unloaded:
            world.restart()
        world.writes, world.writes_left = 0, writes
        try:
            CASES[case](world)
            complete = True
        except Unavailable:
            complete = False
        world.start()
        gone = [word for word in ("plain", "parted") if word not in str(world.stored("/"))]
        if not gone:
            assert whole(world)
        else:
            wanted = {"topic": ["plain"], "forced": ["plain"], "partitioned": ["parted"]}
            assert gone == wanted.get(case, ["plain", "parted"])
        outcomes.add((complete, bool(gone)))
        assert world.stored(DELETIONS) == []
        if complete:
            break
        writes += 1
    assert outcomes == {(False, False), (False, True), (True, True)}
    assert writes >= 4


def test_what_a_failing_disk_interrupts_continues_at_the_next_use() -> None:
    world = filled()
    world.writes, world.writes_left = 0, 2  # the mark, and the record
    with pytest.raises(Unavailable):
        delete(world, PLAIN)
    with pytest.raises(Unavailable):
        world.topic(PLAIN)
    with pytest.raises(Unavailable):
        world.do(world.directory.creation.plain(PLAIN, {}))
    world.writes_left = None
    assert world.topic(PLAIN).log.end == 0  # type: ignore[union-attr]
    assert world.stored(DELETIONS) == []


def test_a_mark_that_was_not_stored_deletes_nothing() -> None:
    world = filled()
    world.writes, world.writes_left = 0, 0
    with pytest.raises(Unavailable):
        delete(world, PLAIN)
    with pytest.raises(Unavailable):
        delete(world, NAMESPACE, force=True)
    world.writes_left = None
    with pytest.raises(NamespaceNotFound):
        world.topic(PLAIN, create=False)
    world.do(world.directory.jobs.run("deleting"))
    assert whole(world)


def test_a_mark_that_was_stored_although_it_seemed_not_counts() -> None:
    world = filled()
    with world.failing_metadata(lands=True), pytest.raises(Unavailable):
        delete(world, PARTED)
    assert world.do(world.directory.partitions(PARTED, create=True)) == 0
    assert "parted" not in str(world.stored("/"))


def test_upkeep_continues_the_deletion_of_a_namespace() -> None:
    world = filled(allow_auto_namespace_creation=True)
    world.writes, world.writes_left = 0, 4
    with pytest.raises(Unavailable):
        delete(world, NAMESPACE, force=True)
    with pytest.raises(NamespaceNotFound, match="being created or deleted"):
        world.topic(PLAIN)
    world.do(world.directory.jobs.run("deleting"))  # logged, and tried again
    world.writes_left = None
    delete(world, NAMESPACE, force=True)
    assert "default" not in str(world.stored("/"))
    world.topic(PLAIN)


# Tenants, while namespaces are made in them -----------------------------------------------


def slow(world: NamedWorld, method: Callable[..., Any]) -> Callable[..., Any]:
    async def slowly(*asked: Any, **more: Any) -> Any:
        await yield_turn(world.clock)
        found = await method(*asked, **more)
        await yield_turn(world.clock)
        return found

    return slowly


@pytest.mark.parametrize("is_made_first", [False, True])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("by_use", [False, True])
@pytest.mark.parametrize("steps", range(0, 12, 2))
def test_no_namespace_is_left_without_its_tenant(
    is_made_first: bool, force: bool, by_use: bool, steps: int
) -> None:
    world = NamedWorld(allow_auto_namespace_creation=True)
    directory, name = world.directory, NamespaceName.parse("tenant/space")
    world.do(directory.tenants.ensure("tenant"))
    for method in ("get", "put", "delete", "list"):
        setattr(world.metadata, method, slow(world, getattr(world.metadata, method)))

    def make() -> Any:
        if by_use:
            return world.begin(directory.namespaces.require(str(name)))
        return world.begin(directory.namespaces.create(name, Namespace()))

    def end() -> Any:
        return world.begin(directory.deletion.tenant("tenant", force))

    one, two = (make, end) if is_made_first else (end, make)
    begun = [one()]
    for _ in range(steps):
        world.clock.step()
    begun.append(two())
    world.clock.pump()
    for promise in begun:
        with suppress(NamespaceNotFound, NotEmpty, TenantNotFound):
            promise.result()
    tenants = world.do(directory.tenants.names())
    assert not world.do(directory.namespaces.has(str(name))) or "tenant" in tenants
    world.do(directory.namespaces.ensure(NamespaceName.parse("tenant/later")))
    assert world.do(directory.namespaces.has("tenant/later")), "it is closed no more"


def test_a_tenant_that_is_being_deleted_is_not_made_anew() -> None:
    world = NamedWorld()
    directory = world.directory
    world.do(directory.namespaces.ensure(NamespaceName.parse("tenant/space")))
    world.writes_left = world.writes + 1  # the mark
    with pytest.raises(Unavailable):
        delete(world, "tenant", force=True)
    with pytest.raises(AlreadyExists, match="being deleted"):
        world.do(directory.tenants.create("tenant", Tenant()))
    with pytest.raises(TenantNotFound, match="being deleted"):
        world.do(directory.namespaces.create(NamespaceName.parse("tenant/new"), Namespace()))
    world.writes_left = None
    world.do(directory.deletion.resume())
    assert "tenant" not in world.do(directory.tenants.names())
    world.do(directory.tenants.create("tenant", Tenant()))
    world.do(directory.namespaces.create(NamespaceName.parse("tenant/new"), Namespace()))


def test_a_deletion_that_is_refused_when_continued_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = NamedWorld()
    directory = world.directory
    for name in ("refused", "willing"):
        world.do(directory.namespaces.ensure(NamespaceName.parse(f"{name}/space")))
        world.writes_left = world.writes + 1  # the mark
        with pytest.raises(Unavailable):
            delete(world, name, force=True)
        world.writes_left = None
    delete_tenant = directory.tenants.delete

    async def refuse(name: str) -> None:
        if name == "refused":
            raise NotEmpty("there is something still")
        await delete_tenant(name)

    with monkeypatch.context() as patch:
        patch.setattr(directory.tenants, "delete", refuse)
        world.do(directory.deletion.resume())
    assert [one.getMessage() for one in caplog.records if one.levelname == "WARNING"] == [
        "the deletion of refused failed and will be retried: there is something still"
    ]
    assert "willing" not in world.do(directory.tenants.names())
    world.do(directory.deletion.resume())
    assert "refused" not in world.do(directory.tenants.names())


def test_the_start_does_not_wait_for_a_deletion_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it does while a store of objects does not answer; it goes on later."""
    world = filled()
    world.writes_left = world.writes + 1  # the mark
    with pytest.raises(Unavailable):
        delete(world, PLAIN)
    world.writes_left = None
    deletion, answered = world.directory.deletion, world.clock.promise()
    erase = world.directory.topic_host.erase

    async def hang(name: TopicName) -> None:
        await answered
        await erase(name)

    monkeypatch.setattr(world.directory.topic_host, "erase", hang)
    started = world.clock.promise()

    async def start() -> None:
        await deletion.resume_at_start()
        started.set_result(None)

    world.tasks.spawn(start())
    world.clock.pump()
    assert not started.done()
    world.clock.advance(START_SECONDS)
    assert started.done() and str(PLAIN) in deletion.pending
    answered.set_result(None)
    world.clock.pump()
    assert str(PLAIN) not in deletion.pending
    world.do(deletion.resume_at_start())


@pytest.mark.parametrize("steps", range(0, 24, 3))
def test_a_tenant_goes_although_a_namespace_of_it_goes_by_itself(steps: int) -> None:
    world = NamedWorld()
    directory = world.directory
    for space in ("one", "two"):
        world.do(directory.namespaces.ensure(NamespaceName.parse(f"tenant/{space}")))
    for method in ("get", "put", "delete", "list"):
        setattr(world.metadata, method, slow(world, getattr(world.metadata, method)))
    namespace = world.begin(directory.deletion.namespace("tenant/two", force=False))
    for _ in range(steps):
        world.clock.step()
    tenant = world.begin(directory.deletion.tenant("tenant", force=True))
    world.clock.pump()
    namespace.result()
    tenant.result()
    assert world.stored(DELETIONS) == []
    assert "/tenant/" not in str([f"{key}/" for key in world.stored("/")])


# Tried again, by the same broker ------------------------------------------------------------


@pytest.mark.parametrize("writes", range(20))
@pytest.mark.parametrize("name", [PLAIN, PARTED, "tenant/space"])
def test_what_is_deleted_in_several_attempts_is_not_listed_any_more(name: Any, writes: int) -> None:
    world = NamedWorld()
    namespace = name if isinstance(name, str) else NAMESPACE
    world.do(world.directory.namespaces.ensure(NamespaceName.parse(namespace)))
    world.topic(named("plain", namespace))
    world.part(named("parted", namespace), 3)
    world.topic(named("parted-partition-1", namespace))
    before = world.names(namespace)
    world.writes_left = world.writes + writes
    with suppress(Unavailable):
        delete(world, name, force=True)
    world.writes_left = None
    with suppress(NamespaceNotFound, TopicNotFound):
        delete(world, name, force=True)
    world.do(world.directory.deletion.resume())
    assert world.stored(DELETIONS) == []
    world.do(world.directory.namespaces.ensure(NamespaceName.parse(namespace)))
    kept = [] if isinstance(name, str) else [one for one in before if name.local not in one]
    assert world.names(namespace) == kept


def test_an_end_that_was_stored_although_it_seemed_not_is_one() -> None:
    world = NamedWorld()
    world.part(PARTED, 1)
    assert world.names() == ["parted-partition-0"]
    remove = world.metadata.delete

    async def lost(key: str, *asked: Any) -> None:
        await remove(key, *asked)
        if key.startswith(DELETIONS):
            raise Unavailable("it was written, but that is not known")

    world.metadata.delete = lost  # type: ignore[assignment]
    with pytest.raises(Unavailable):
        delete(world, PARTED)
    world.metadata.delete = remove  # type: ignore[method-assign]
    world.part(PARTED, 3)
    delete(world, PARTED)
    assert world.names() == []


def test_stored_permissions_on_what_is_no_topic_keep_no_topic_from_deletion() -> None:
    world = filled()
    bad, part = f"{PLAIN}/y", f"{PLAIN}-partition-0"
    stored = {"destination_auth": {name: {"r": ["produce"]} for name in (str(PLAIN), bad, part)}}
    world.do(world.directory.namespaces.change_permissions(NAMESPACE, lambda _: stored))
    delete(world, PLAIN)
    left = world.do(world.directory.namespaces.get(NAMESPACE)).permissions
    assert list(left["destination_auth"]) == [bad]
    assert world.stored(DELETIONS) == []


def test_a_defect_in_one_deletion_keeps_neither_the_others_nor_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = filled()
    deletion = world.directory.deletion
    world.do(deletion.pending.begin("persistent://a/b/c/d"))
    world.do(deletion.pending.begin(str(PLAIN)))
    world.restart()
    assert "persistent://a/b/c/d failed unexpectedly" in caplog.text
    assert len(world.stored(DELETIONS)) == 1


@pytest.mark.parametrize("name", [COORDINATORS, COORDINATORS.with_partition(3), "pulsar/system"])
def test_the_state_of_transactions_cannot_be_deleted(name: Any) -> None:
    world = NamedWorld()
    with pytest.raises(NotAllowed, match="state of transactions"):
        delete(world, name, force=True)
