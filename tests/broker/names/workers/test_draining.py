"""Bundles that others have while their worker is restarted."""

import logging

import pytest

from broker.names.workers.distributed_worlds import PARTS, WORKERS, World, middle_of
from fakes.named_worlds import NAMESPACE
from magnetar_broker.names.namespaces import Namespace
from magnetar_proto.names import NamespaceName

OTHER_NAMESPACE = "public/other"


def workers_of(world: World, namespace: str = NAMESPACE) -> list[int]:
    """The worker of each bundle, in their order."""
    return list(world.do(world.processes.placement.placed(namespace)).workers)


def test_the_others_have_the_bundles_and_then_it_has_them_again() -> None:
    world = World()
    world.part()
    before = workers_of(world)
    loaded = {part: world.worker(part) for part in PARTS}
    world.do(world.processes.draining.drain(0))
    drained = workers_of(world)
    assert 0 not in drained
    assert [now for now, was in zip(drained, before, strict=True) if was != 0] == [
        was for was in before if was != 0
    ], "the bundles of the others stay"
    all_owned = [worker for _, placed in world.processes.owners.all() for worker in placed.workers]
    shares = [all_owned.count(worker) for worker in range(1, WORKERS)]
    assert max(shares) - min(shares) <= 1, "every other one takes its part"
    assert not any(name in world.processes.workers[0].broker.topics for name in PARTS)
    world.processes.replace(0)
    world.do(world.processes.draining.undrain(0))
    assert workers_of(world) == before
    for part, worker in loaded.items():
        world.topic(part)
        assert world.worker(part).number == worker.number


def test_a_new_namespace_gets_no_worker_that_is_drained() -> None:
    world = World()
    world.part()
    world.do(world.processes.draining.drain(0))
    world.do(world.directory.namespaces.create(NamespaceName.parse(OTHER_NAMESPACE), Namespace()))
    assert sorted(set(workers_of(world, OTHER_NAMESPACE))) == [1, 2]
    world.do(world.processes.draining.undrain(0))
    assert 0 not in workers_of(world, OTHER_NAMESPACE), "it was not drained of these"


def test_a_bundle_that_was_split_or_deleted_meanwhile_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.part()
    world.do(world.directory.namespaces.create(NamespaceName.parse(OTHER_NAMESPACE), Namespace()))
    workers_of(world, OTHER_NAMESPACE)
    part = next(part for part in PARTS if world.processes.number_of(part) == 0)
    world.do(world.processes.draining.drain(0))
    bundle = world.bundle_of(part)
    world.do(world.directory.bundles.split(NAMESPACE, bundle, middle_of(bundle)))
    world.do(world.directory.deletion.namespace(OTHER_NAMESPACE, force=True))
    world.do(world.processes.draining.undrain(0))
    assert world.processes.number_of(part) != 0
    assert f"bundle {bundle} of {NAMESPACE} has not moved to worker-0" in caplog.text
    assert f"of {OTHER_NAMESPACE} has not moved to worker-0" in caplog.text
    assert world.topic(part) is not None


def test_a_worker_that_ends_while_it_is_drained_gets_its_bundles_back() -> None:
    world = World()
    world.part()
    before = workers_of(world)
    world.processes.workers[0].joined.cut()
    world.do(world.processes.draining.drain(0))
    assert 0 not in workers_of(world)
    world.processes.replace(0)
    world.do(world.processes.draining.undrain(0))
    assert workers_of(world) == before
