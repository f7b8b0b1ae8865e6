"""Locks of topics: one owner by name, families exclude their members."""

from fakes.named_worlds import NamedWorld, named
from magnetar_broker.names.topic_locks import TopicLocks
from magnetar_proto.names import TopicName

PLAIN, PARTED = named("plain"), named("parted")


def test_one_at_a_time_for_a_name() -> None:
    world = NamedWorld()
    locks = TopicLocks(world.clock)
    gates = {word: world.clock.promise() for word in "abc"}
    order: list[str] = []

    async def work(word: str, name: TopicName) -> None:
        async with locks.held_with_partitions(name):
            order.append(word)
            await gates[word]

    jobs = [
        world.begin(work("a", PARTED.with_partition(1))),
        world.begin(work("b", PARTED)),
        world.begin(work("c", PARTED.with_partition(2))),
    ]
    world.clock.pump()
    assert order == ["a"]  # the family waits for its member, later members for the family
    gates["a"].set_result(None)
    world.clock.pump()
    assert order == ["a", "b"]
    gates["b"].set_result(None)
    world.clock.pump()
    assert order == ["a", "b", "c"]
    gates["c"].set_result(None)
    world.clock.pump()
    for job in jobs:
        job.result()


def test_settled_waits_for_the_owners_of_the_topics_meant() -> None:
    world = NamedWorld()
    locks = TopicLocks(world.clock)
    gate = world.clock.promise()

    async def work() -> None:
        async with locks.held(PLAIN):
            await gate

    world.begin(work())
    others = world.begin(locks.settled(lambda name: name == PARTED))
    waiting = world.begin(locks.settled(lambda name: name == PLAIN))
    assert others.done() and not waiting.done()
    gate.set_result(None)
    world.clock.pump()
    assert waiting.done()


def test_partitions_are_owned_concurrently_and_the_family_waits_for_both() -> None:
    world = NamedWorld()
    locks = TopicLocks(world.clock)
    gate = world.clock.promise()
    order: list[TopicName] = []

    async def work(name: TopicName) -> None:
        async with locks.held_with_partitions(name):
            order.append(name)
            await gate

    parts = [PARTED.with_partition(index) for index in (0, 1)]
    jobs = [world.begin(work(name)) for name in (*parts, parts[0], PARTED)]
    world.clock.pump()
    assert order == parts
    gate.set_result(None)
    world.clock.pump()
    assert order == [*parts, parts[0], PARTED]
    for job in jobs:
        job.result()


def test_members_that_waited_for_the_family_own_their_topics_next() -> None:
    world = NamedWorld()
    locks = TopicLocks(world.clock)
    growing, opening = world.clock.promise(), world.clock.promise()
    order: list[str] = []

    async def grow(word: str) -> None:
        async with locks.family_held(PARTED):
            order.append(word)
            await growing

    async def open_partition(index: int) -> None:
        async with locks.held(PARTED.with_partition(index)):
            order.append(f"partition {index}")
            await opening

    first = world.begin(grow("first"))
    partitions = [world.begin(open_partition(index)) for index in range(3)]
    second = world.begin(grow("second"))
    growing.set_result(None)
    world.clock.pump()
    assert order[0] == "first"
    assert sorted(order[1:]) == ["partition 0", "partition 1", "partition 2"]
    settled = world.begin(locks.settled(lambda name: name.base == PARTED))
    opening.set_result(None)
    world.clock.pump()
    assert order[4:] == ["second"]
    for job in (first, *partitions, second, settled):
        job.result()


def test_settled_waits_for_members_that_wait_for_their_family() -> None:
    world = NamedWorld()
    locks = TopicLocks(world.clock)
    growing, opening = world.clock.promise(), world.clock.promise()

    async def grow() -> None:
        async with locks.family_held(PARTED):
            await growing

    async def open_partition() -> None:
        async with locks.held(PARTED.with_partition(0)):
            await opening

    world.begin(grow())
    world.begin(open_partition())
    settled = world.begin(locks.settled(lambda name: name.base == PARTED))
    growing.set_result(None)
    world.clock.pump()
    assert not settled.done()
    opening.set_result(None)
    world.clock.pump()
    assert settled.done()
