"""The creation of topics: by use, on request, and with more partitions."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from effort import seeds
from fakes.named_worlds import NAMESPACE, NamedWorld, named
from magnetar_broker.base.errors import (
    AlreadyExists,
    BrokerError,
    LimitReached,
    NamespaceNotFound,
    NotAllowed,
    TenantNotFound,
    TopicNotFound,
)
from magnetar_broker.base.metadata_keys import DELETIONS, POLICIES
from magnetar_broker.config import TopicType
from magnetar_broker.names.catalogue import Partitioned
from magnetar_broker.names.deletion.namespace_deletion import DELETING
from magnetar_broker.names.namespaces import Namespace
from magnetar_broker.policies.table import AUTO_TOPIC_CREATION, MAX_PRODUCERS, MAX_TOPICS
from magnetar_broker.policies.values import AutoTopicCreation
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.errors import Unavailable
from magnetar_storage.runtime.execution import yield_turn

PLAIN, PARTED = named("plain"), named("parted")


def partitions(world: NamedWorld, name: TopicName, create: bool = True) -> int:
    return world.do(world.directory.partitions(name, create))


def refused(world: NamedWorld, work: Any, refusal: type[BrokerError]) -> str:
    with pytest.raises(refusal) as caught:
        world.do(work)
    return str(caught.value)


def test_a_policy_of_the_namespace_overrides_the_settings() -> None:
    world = NamedWorld(allow_auto_topic_creation=False)
    refused(world, world.broker.topic(PLAIN, True), TopicNotFound)
    set_policy = world.directory.enforcement.set
    world.do(set_policy(NAMESPACE, {AUTO_TOPIC_CREATION: AutoTopicCreation(True, False, 1)}))
    world.topic(PLAIN)
    world.do(set_policy(NAMESPACE, {AUTO_TOPIC_CREATION: AutoTopicCreation(True, True, 3)}))
    assert partitions(world, PARTED) == 3
    assert partitions(world, PLAIN) == 0
    world.do(set_policy(NAMESPACE, {AUTO_TOPIC_CREATION: AutoTopicCreation(False, True, 3)}))
    refused(world, world.directory.partitions(named("more"), True), TopicNotFound)


@pytest.mark.parametrize(("by_use", "refusal"), [(True, NotAllowed), (False, TopicNotFound)])
def test_a_partition_of_no_topic_is_missing_where_use_creates_none(
    by_use: bool, refusal: type[BrokerError]
) -> None:
    world = NamedWorld(allow_auto_topic_creation=by_use)
    partition = PARTED.with_partition(0)
    why = refused(world, world.broker.topic(partition, True), refusal)
    assert "create persistent://" in why


@pytest.mark.parametrize("local", ["a-DLQ", "a-RETRY", "a-partition-0", "__change_events"])
def test_what_is_never_partitioned_by_use(local: str) -> None:
    world = NamedWorld(allow_auto_topic_creation_type=TopicType.PARTITIONED)
    assert partitions(world, named(local)) == 0
    assert world.do(world.directory.catalogue.partitioned_topics(NAMESPACE, "persistent")) == []


def test_a_limit_of_partitions_holds_for_those_made_by_use() -> None:
    world = NamedWorld(
        allow_auto_topic_creation_type=TopicType.PARTITIONED,
        default_num_partitions=8,
        max_num_partitions_per_partitioned_topic=5,
    )
    assert partitions(world, PARTED) == 5


def test_system_topics_are_created_by_use_despite_the_policy() -> None:
    world = NamedWorld(allow_auto_topic_creation=False)
    system = named("__change_events")
    assert partitions(world, system) == 0
    world.topic(system)
    assert world.names() == []
    assert world.do(world.directory.catalogue.exists(system))


def test_a_topic_is_made_on_purpose_once() -> None:
    world = NamedWorld(allow_auto_topic_creation=False)
    world.do(world.directory.creation.plain(PLAIN, {"a": "b"}))
    assert PLAIN not in world.broker.topics
    refused(world, world.directory.creation.plain(PLAIN, {}), AlreadyExists)
    assert world.topic(PLAIN).log.record.properties == {"a": "b"}  # type: ignore[union-attr]
    refused(world, world.directory.creation.partitioned(PLAIN, Partitioned(2)), AlreadyExists)
    world.part(PARTED, 2)
    refused(world, world.directory.creation.plain(PARTED, {}), NotAllowed)
    refused(world, world.directory.creation.plain(PARTED.with_partition(1), {}), AlreadyExists)


def test_a_topic_that_is_not_persistent_is_made_on_purpose() -> None:
    world = NamedWorld(allow_auto_topic_creation=False)
    name = named("fleeting", domain="non-persistent")
    refused(world, world.broker.topic(name, True), TopicNotFound)
    world.do(world.directory.opening.create_non_persistent(name))
    assert world.topic(name) is world.topic(name)
    refused(world, world.directory.opening.create_non_persistent(name), AlreadyExists)


def test_listeners_are_notified_of_every_new_name() -> None:
    world = NamedWorld()
    received: list[tuple[str, bool]] = []
    world.directory.events.watch(
        NAMESPACE, lambda name, there: received.append((name.local, there))
    )
    world.topic(PLAIN)
    world.topic(PLAIN)
    world.do(world.directory.creation.plain(named("other"), {}))
    world.part(PARTED, 2)
    world.topic(PARTED.with_partition(1))
    world.do(world.directory.creation.grow(PARTED, 3))
    world.topic(named("fleeting", domain="non-persistent"))
    world.restart()
    world.topic(PLAIN)
    parts = [f"parted-partition-{index}" for index in range(3)]
    assert received == [(local, True) for local in ("plain", "other", *parts)]


# Growth ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loaded", [True, False])
def test_new_partitions_have_the_subscriptions_of_the_first_one(loaded: bool) -> None:
    world = NamedWorld()
    world.part(PARTED, 2)
    for subscription in ("one", "two"):
        world.subscribe(PARTED.with_partition(0), subscription)
    world.subscribe(PARTED.with_partition(1), "of the second")
    if not loaded:
        world.restart()
    world.do(world.directory.creation.grow(PARTED, 4))
    assert partitions(world, PARTED) == 4
    world.publish(PARTED.with_partition(3), b"first")
    topic = world.topic(PARTED.with_partition(3))
    assert sorted(topic.subscriptions) == ["one", "two"]
    for found in topic.subscriptions.values():
        assert world.do(found.backlog()).messages == 1


def test_growth_is_whole_or_did_not_happen() -> None:
    writes, outcomes = 0, set()
    complete = False
    while not complete:
        world = NamedWorld()
        world.part(PARTED, 1)
        world.subscribe(PARTED.with_partition(0))
        world.writes, world.writes_left = 0, writes
        try:
            world.do(world.directory.creation.grow(PARTED, 3))
            complete = True
        except Unavailable:
            assert world.writes == writes
        world.start()
        count = partitions(world, PARTED)
        assert count in (1, 3)
        assert len(world.names()) == count
        world.do(world.directory.creation.grow(PARTED, 3))
        for index in range(3):
            assert list(world.topic(PARTED.with_partition(index)).subscriptions) == ["sub"]
        outcomes.add((complete, count))
        world.do(world.directory.deletion.topics.delete_partitioned(PARTED, force=False))
        assert world.store.ids() == set()
        writes += 1
    assert outcomes == {(False, 1), (True, 3)}


def test_growth_needs_a_partitioned_topic() -> None:
    world = NamedWorld()
    world.topic(PLAIN)
    for name in (PLAIN, named("nothing")):
        refused(world, world.directory.creation.grow(name, 3), AlreadyExists)
    world.part(PARTED, 3)
    world.do(world.directory.creation.grow(PARTED, 2))
    assert partitions(world, PARTED) == 3


# Limits ---------------------------------------------------------------------------------


def test_a_namespace_has_no_more_topics_than_it_may() -> None:
    world = NamedWorld(max_topics_per_namespace=4, allow_auto_namespace_creation=True)
    world.topic(PLAIN)
    why = refused(world, world.directory.creation.partitioned(PARTED, Partitioned(4)), LimitReached)
    assert "maxTopicsPerNamespace" in why
    world.part(PARTED, 2)
    refused(world, world.directory.creation.grow(PARTED, 4), LimitReached)
    world.do(world.directory.creation.plain(named("more"), {}))
    for attempt in (
        world.broker.topic(named("too many"), True),
        world.directory.creation.plain(named("too many"), {}),
    ):
        refused(world, attempt, LimitReached)
    world.topic(named("__change_events"))
    world.topic(named("fleeting", domain="non-persistent"))
    world.topic(PARTED.with_partition(1))
    world.do(world.directory.deletion.topics.delete(PLAIN, force=True))
    world.topic(named("in its place"))
    refused(world, world.broker.topic(named("too many"), True), LimitReached)
    world.topic(named("elsewhere", "other/namespace"))


def test_the_limit_holds_after_a_restart_and_for_many_at_once() -> None:
    world = NamedWorld(max_topics_per_namespace=3)
    world.topic(PLAIN)
    world.restart()
    attempts = [world.begin(world.broker.topic(named(f"t{number}"), True)) for number in range(5)]
    world.clock.pump()
    made = 0
    for attempt in attempts:
        try:
            attempt.result()
            made += 1
        except LimitReached:
            pass
    assert made == 2 and len(world.names()) == 3


def test_the_limit_of_a_namespace_comes_and_goes() -> None:
    world = NamedWorld()
    for number in range(3):
        world.topic(named(f"t{number}"))
    set_policy = world.directory.enforcement.set
    world.do(set_policy(NAMESPACE, {MAX_TOPICS: 3}))
    refused(world, world.broker.topic(named("more"), True), LimitReached)
    world.do(set_policy(NAMESPACE, {MAX_TOPICS: None}))
    world.topic(named("more"))
    world.do(set_policy(NAMESPACE, {MAX_TOPICS: 4}))
    refused(world, world.broker.topic(named("yet more"), True), LimitReached)


def test_a_topic_that_was_made_and_could_not_be_opened_is_listed() -> None:
    world = NamedWorld(broker_deduplication_enabled=True)
    assert world.do(world.directory.names(NAMESPACE, True, False)) == []
    world.writes_left = world.writes + 1  # the topic's record, and nothing of deduplication
    with pytest.raises(Unavailable):
        world.do(world.broker.topic(PLAIN, True))
    assert world.do(world.directory.names(NAMESPACE, True, False)) == [str(PLAIN)]
    world.writes_left = None
    world.topic(PLAIN)
    assert world.do(world.directory.names(NAMESPACE, True, False)) == [str(PLAIN)]


def test_a_topic_that_could_not_be_made_is_not_listed() -> None:
    world = NamedWorld()
    assert world.do(world.directory.names(NAMESPACE, True, False)) == []
    world.writes_left = world.writes
    with pytest.raises(Unavailable):
        world.do(world.broker.topic(PLAIN, True))
    assert world.do(world.directory.names(NAMESPACE, True, False)) == []


@pytest.mark.parametrize(("before", "after"), [(0, 3), (2, 3), (0, 0)])
def test_what_was_stored_although_it_seemed_to_fail_is_there(before: int, after: int) -> None:
    world = NamedWorld()
    directory, name = world.directory, PARTED if after else PLAIN
    if before:
        world.part(name, before)
    world.do(directory.names(NAMESPACE, True, False))
    put = world.metadata.put

    async def store_and_fail(*asked: Any) -> None:
        await put(*asked)
        raise Unavailable("the outcome is unknown")

    world.metadata.put = store_and_fail  # type: ignore[assignment,method-assign]
    with pytest.raises(Unavailable):
        if before:
            world.do(directory.creation.grow(name, after))
        elif after:
            world.do(directory.creation.partitioned(name, Partitioned(after)))
        else:
            world.do(directory.creation.plain(name, {}))
    world.metadata.put = put  # type: ignore[method-assign]
    assert partitions(world, name, create=False) == after
    expected = [str(name.with_partition(index)) for index in range(after)] or [str(name)]
    assert world.do(directory.names(NAMESPACE, True, False)) == expected


def test_partitions_that_were_not_stored_are_not_there() -> None:
    world = NamedWorld()
    world.writes_left = world.writes
    with pytest.raises(Unavailable):
        world.do(world.directory.creation.partitioned(PARTED, Partitioned(3)))
    refused(world, world.directory.partitions(PARTED, False), TopicNotFound)
    assert world.do(world.directory.catalogue.partitioned_topics(NAMESPACE, "persistent")) == []


# Namespaces with policies -----------------------------------------------------------------

SPACE = NamespaceName.parse("public/space")


def create_space(world: NamedWorld) -> None:
    world.do(world.directory.creation.namespace(SPACE, Namespace(), {MAX_PRODUCERS: 3}))


def is_whole(world: NamedWorld) -> bool:
    """Tell whether the namespace exists with its policies; if not, nothing of it may be stored."""
    if not world.do(world.directory.namespaces.has(str(SPACE))):
        assert not [key for key in world.stored("/") if key.endswith("/space")]
        assert not world.directory.policies.has_explicit(str(SPACE))
        return False
    assert world.do(world.directory.policies.explicit(MAX_PRODUCERS, str(SPACE))) == 3  # type: ignore[arg-type]
    assert world.stored(DELETIONS) == []
    return True


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("writes", range(6))
def test_a_namespace_is_created_with_its_policies_or_not_at_all(
    writes: int, restarts: bool
) -> None:
    world = NamedWorld(allow_auto_namespace_creation=True)
    world.writes, world.writes_left = 0, writes
    answered = True
    try:
        create_space(world)
    except Unavailable:
        answered = False
    world.writes_left = None
    if restarts:
        world.start()
    else:
        world.do(world.directory.jobs.run(DELETING))
    assert is_whole(world) or not answered
    assert answered == (writes >= 4), "mark, policies, namespace, end of the mark"
    if not is_whole(world):
        world.do(world.directory.namespaces.require(str(SPACE)))
        assert world.do(world.directory.policies.explicit(MAX_PRODUCERS, str(SPACE))) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("writes", range(6))
def test_writes_that_took_place_although_they_seemed_not_leave_no_half_a_namespace(
    writes: int,
) -> None:
    world = NamedWorld()
    world.writes = 0
    world.unsure_write = writes
    with suppress(Unavailable):
        create_space(world)
    world.unsure_write = None
    world.do(world.directory.jobs.run(DELETING))
    is_whole(world)
    world.restart()
    is_whole(world)


def test_policies_that_may_be_stored_are_deleted_with_their_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = NamedWorld()
    get = world.metadata.get

    async def fail(key: str) -> Any:
        if key.startswith(POLICIES) and world.writes > 1:
            raise Unavailable("metadata cannot be read")
        return await get(key)

    world.writes, world.unsure_write = 0, 1  # the policies
    with monkeypatch.context() as patch:
        patch.setattr(world.metadata, "get", fail)
        with pytest.raises(Unavailable):
            create_space(world)
    assert not is_whole(world)


def test_a_namespace_that_is_refused_leaves_nothing() -> None:
    world = NamedWorld(max_namespaces_per_tenant=1)
    with pytest.raises(LimitReached):
        create_space(world)
    assert not is_whole(world)
    with pytest.raises(TenantNotFound):
        world.do(
            world.directory.creation.namespace(
                NamespaceName.parse("missing/space"), Namespace(), {MAX_PRODUCERS: 3}
            )
        )
    assert not [key for key in world.stored("/") if "missing" in key]


def test_of_two_creators_of_a_namespace_one_succeeds_and_its_policies_stay() -> None:
    world = NamedWorld()
    creation = world.directory.creation
    first = world.begin(creation.namespace(SPACE, Namespace(), {MAX_PRODUCERS: 3}))
    second = world.begin(creation.namespace(SPACE, Namespace(), {MAX_PRODUCERS: 4}))
    world.clock.pump()
    first.result()
    with pytest.raises(AlreadyExists):
        second.result()
    assert is_whole(world)
    world.do(world.directory.namespaces.require(str(SPACE)))


def test_a_deletion_waits_until_the_namespace_is_created() -> None:
    world = NamedWorld()
    directory = world.directory
    created = world.begin(directory.creation.namespace(SPACE, Namespace(), {MAX_PRODUCERS: 3}))
    deleted = world.begin(directory.deletion.namespace(str(SPACE), force=False))
    world.clock.pump()
    created.result()
    deleted.result()
    assert not is_whole(world)


def slow_down(world: NamedWorld, dice: Random) -> None:
    """Let every access to metadata take some turns, before and after it takes effect."""

    async def wait() -> None:
        for _ in range(dice.randrange(4)):
            await yield_turn(world.clock)

    def slow(access: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def slowly(*asked: Any) -> Any:
            await wait()
            found = await access(*asked)
            await wait()
            return found

        return slowly

    for method in ("get", "put", "delete", "list"):
        setattr(world.metadata, method, slow(getattr(world.metadata, method)))


@pytest.mark.parametrize("seed", seeds(200))
def test_a_namespace_created_by_use_and_by_request_exists_in_the_end(seed: int) -> None:
    world = NamedWorld(allow_auto_namespace_creation=True)
    broker, directory, dice = world.broker, world.directory, Random(seed)
    slow_down(world, dice)
    used = world.begin(broker.topic(named("topic", str(SPACE)), True))
    for _ in range(dice.randrange(30)):
        world.clock.step()
    created = world.begin(directory.creation.namespace(SPACE, Namespace(), {MAX_PRODUCERS: 3}))
    world.clock.pump()
    explicit = world.do(directory.policies.explicit(MAX_PRODUCERS, str(SPACE)))  # type: ignore[arg-type]
    try:
        created.result()
    except AlreadyExists:  # the use was first
        assert explicit is None
        used.result()
    else:
        assert explicit == 3
        with suppress(NamespaceNotFound):  # it was being created
            assert used.result().limits.max_producers == 3
    world.do(directory.namespaces.require(str(SPACE)))
    world.restart()
    assert world.do(world.directory.namespaces.has(str(SPACE)))
    assert world.stored(DELETIONS) == []
