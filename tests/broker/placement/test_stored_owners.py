"""Owners in the metadata store: what the next leader of a cluster begins with."""

from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.unreliable_metadata import Fate, UnreliableMetadata
from fakes.world import ManualClock, run
from magnetar_broker.base.errors import NamespaceNotFound
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import OWNERS, namespace_key
from magnetar_broker.base.records import create_record
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.placement.assignments import Placement
from magnetar_broker.placement.bundle_owners import BundleOwners, Placed
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.placement.stored_bundles import StoredBundles
from magnetar_broker.placement.stored_owners import NamedOwners, StoredOwners
from magnetar_broker.placement.worker_links import WorkerLinks
from magnetar_storage.errors import BadVersion, Corrupt, StorageError
from magnetar_storage.interfaces import PAGE

THERE = ListenerUrls("pulsar://there:6650")
SPACES = ("tenant/a", "tenant/b", "tenant/c")


class Cluster:
    """Leaders on one store, one after the other; broker b1 or b2 leads."""

    def __init__(self, is_kept: bool = True) -> None:
        self.clock = ManualClock()
        self.metadata = UnreliableMetadata(self.clock)
        self.is_kept = is_kept
        for space in SPACES:
            self.do(create_record(self.metadata, namespace_key(space), {}))
        self.leader = self.placement("b1")

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return run(work, self.clock)

    def placement(self, broker: str) -> Placement:
        owners = BundleOwners(["pulsar://worker-0:1", "pulsar://worker-1:1"], broker)
        for other in {"b1", "b2"} - {broker}:
            for number in range(2):
                owners.join(f"{other}/{number}", THERE)
        metadata = GuardedMetadata(self.metadata, None)
        kept = StoredOwners(metadata) if self.is_kept else None
        links = WorkerLinks(2, self.clock)
        return Placement(owners, StoredBundles(metadata, 4), links, self.clock, kept)

    def lead(self, broker: str) -> None:
        """Let another broker lead."""
        self.leader = self.placement(broker)
        self.do(self.leader.reload())

    @property
    def table(self) -> dict[str, tuple[tuple[int, ...], list[str]]]:
        """The owners that the leader knows, by name."""
        owners = self.leader.owners
        return {
            space: (placed.bundles.boundaries, [owners.names[one] for one in placed.workers])
            for space, placed in owners.all()
        }

    @property
    def stored(self) -> list[str]:
        keys = self.do(self.metadata.list(OWNERS))
        return [key.removeprefix(OWNERS) for key in keys]


def test_the_next_leader_knows_the_owners_by_name() -> None:
    cluster = Cluster()
    bundles = cluster.do(cluster.leader.placed("tenant/a")).bundles
    for index, worker in enumerate(("b2/1", "b1/0", "b2/0", "b2/1")):
        cluster.do(cluster.leader.give("tenant/a", bundles.ranges[index], worker))
    before = cluster.table
    assert before["tenant/a"][1] == ["b2/1", "b1/0", "b2/0", "b2/1"]
    cluster.lead("b2")
    assert cluster.table == before
    assert cluster.leader.owners.number_of("b2/1") == 1, "its own workers have the first numbers"


def test_owners_that_have_not_joined_keep_their_bundles() -> None:
    cluster = Cluster()
    kept = StoredOwners(GuardedMetadata(cluster.metadata, None))
    cluster.do(kept.store("tenant/a", NamedOwners(Bundles.even(2), ("b7/0", "b1/1"))))
    cluster.lead("b1")
    assert cluster.table["tenant/a"][1] == ["b7/0", "b1/1"]
    assert "b7/0" in cluster.leader.processes


def test_without_a_store_of_owners_nothing_is_written_or_read() -> None:
    cluster = Cluster(is_kept=False)
    writes, reads = len(cluster.metadata.landed), cluster.metadata.calls.count("read_under")
    cluster.do(cluster.leader.placed("tenant/a"))
    cluster.do(cluster.leader.adopt("tenant/a", Bundles.even(8)))
    before = cluster.table
    cluster.do(cluster.leader.reload())
    assert cluster.table == before and before
    cluster.do(cluster.leader.forget("tenant/a"))
    assert len(cluster.metadata.landed) == writes
    assert cluster.metadata.calls.count("read_under") == reads
    cluster.leader.take_over("tenant/b", Placed(Bundles.even(1), (1,)))
    assert cluster.table["tenant/b"][1] == ["b1/1"]


def test_what_workers_know_does_not_count_where_owners_are_stored() -> None:
    cluster = Cluster()
    cluster.leader.take_over("tenant/b", Placed(Bundles.even(1), (1,)))
    assert not cluster.table


def test_a_split_and_a_deletion_are_stored() -> None:
    cluster = Cluster()
    first, second = (cluster.do(cluster.leader.placed(space)) for space in SPACES[:2])
    cluster.do(cluster.leader.adopt("tenant/a", Bundles.even(8)))
    cluster.do(cluster.leader.forget("tenant/b"))
    assert cluster.stored == ["tenant/a"]
    cluster.lead("b1")
    assert cluster.leader.owners.all() == [("tenant/a", first.adapted(Bundles.even(8)))]
    assert first.bundles == second.bundles == Bundles.even(4)


def test_an_unchanged_table_is_not_stored_again() -> None:
    cluster = Cluster()
    placed = cluster.do(cluster.leader.placed("tenant/a"))
    writes = len(cluster.metadata.landed)
    cluster.do(cluster.leader.adopt("tenant/a", placed.bundles))
    owner = cluster.leader.owners.names[placed.workers[0]]
    cluster.do(cluster.leader.give("tenant/a", placed.bundles.ranges[0], owner))
    assert len(cluster.metadata.landed) == writes


def test_lines_that_another_leader_has_deleted_go() -> None:
    cluster = Cluster()
    cluster.do(cluster.leader.placed("tenant/a"))
    cluster.do(cluster.placement("b2").forget("tenant/a"))
    cluster.do(cluster.leader.reload())
    assert not cluster.table


def test_a_namespace_that_does_not_exist_gets_no_owners() -> None:
    cluster = Cluster()
    with pytest.raises(NamespaceNotFound):
        cluster.do(cluster.leader.placed("tenant/none"))
    assert not cluster.stored


def test_all_owners_are_read_however_many_there_are() -> None:
    cluster = Cluster()
    kept = StoredOwners(GuardedMetadata(cluster.metadata, None))
    line = NamedOwners(Bundles.even(1), ("b1/0",))
    for number in range(PAGE + 1):
        cluster.do(kept.store(f"tenant/{number}", line))
    again = StoredOwners(GuardedMetadata(cluster.metadata, None))
    assert cluster.do(again.load()) == {f"tenant/{n}": line for n in range(PAGE + 1)}


def test_a_former_leader_stores_nothing_over_the_next_one() -> None:
    cluster = Cluster()
    placed = cluster.do(cluster.leader.placed("tenant/a"))
    former, bundle = cluster.leader, placed.bundles.ranges[0]
    cluster.lead("b2")
    cluster.do(cluster.leader.give("tenant/a", bundle, "b2/1"))
    before = cluster.table
    with pytest.raises(BadVersion):
        cluster.do(former.give("tenant/a", bundle, "b1/1"))
    assert former.owners.all() == [("tenant/a", placed)], "what is not stored is not used"
    cluster.do(cluster.leader.reload())
    assert cluster.table == before


def test_a_damaged_record_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    damage = Corrupt("metadata", 0, "bytes")

    async def damaged(prefix: str, after: str = "", limit: int = PAGE) -> list[Any]:
        return [(f"{OWNERS}tenant/a", damage)] if not after else []

    monkeypatch.setattr(cluster.metadata, "read_under", damaged)
    with pytest.raises(Corrupt):
        cluster.do(cluster.leader.reload())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "give", "split", "forget", "lead"]),
        st.sampled_from(SPACES),
        st.sampled_from(["b1/0", "b1/1", "b2/0", "b2/1"]),
        st.sampled_from([Fate.ANSWERED, Fate.ANSWERED, Fate.LOST, Fate.NOT_MADE]),
    ),
    max_size=25,
)


@given(steps=STEPS)
@settings(max_examples=examples(200), deadline=None)
def test_every_leader_begins_with_what_was_stored(
    steps: list[tuple[str, str, str, Fate]],
) -> None:
    """Writes may fail or lose their answers: only then another leader may know other owners."""
    cluster = Cluster()
    unsure: set[str] = set()
    for what, space, worker, fate in steps:
        known = cluster.table.get(space)
        if what == "lead":
            before = {line: owners for line, owners in cluster.table.items() if line not in unsure}
            cluster.lead(worker.partition("/")[0])
            after = cluster.table
            assert {line: after[line] for line in after if line not in unsure} == before
            unsure.clear()
            continue
        cluster.metadata.fates.append(fate)
        try:
            cluster.do(step(cluster.leader, what, space, worker))
        except StorageError:
            assert fate is not Fate.ANSWERED
            assert cluster.table.get(space) == known, "what may not be stored is not used"
            unsure.add(space)
        cluster.metadata.fates.clear()


async def step(leader: Placement, what: str, space: str, worker: str) -> None:
    if what == "split":
        await leader.adopt(space, Bundles.even(8))
    elif what == "forget":
        await leader.forget(space)
    else:
        placed = await leader.placed(space)
        if what == "give":
            await leader.give(space, placed.bundles.ranges[0], worker)
