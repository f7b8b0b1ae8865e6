"""Names with contents, to be deleted."""

from typing import Any

from fakes.named_worlds import NamedWorld, named
from magnetar_broker.policies.retention import Retention
from magnetar_broker.policies.table import RETENTION

PLAIN, PARTED = named("plain"), named("parted")


def filled(**settings: Any) -> NamedWorld:
    """Return a world with a plain and a partitioned topic that have entries and subscriptions."""
    world = NamedWorld(**settings)
    world.part(PARTED, 3)
    for name in (PLAIN, PARTED.with_partition(0), PARTED.with_partition(2)):
        world.publish(name, b"a", b"b")
        world.subscribe(name)
        world.do(world.directory.enforcement.set(name.base, {RETENTION: Retention(1, 1)}))
    return world


def delete(world: NamedWorld, name: Any, force: bool = False) -> None:
    """Delete a topic, partitioned or not, or by its name a namespace or tenant."""
    of = world.directory.deletion
    if isinstance(name, str):
        world.do(of.namespace(name, force) if "/" in name else of.tenant(name, force))
    elif world.do(world.directory.catalogue.partitions(name)) and name.partition < 0:
        world.do(of.topics.delete_partitioned(name, force))
    else:
        world.do(of.topics.delete(name, force))
