"""The names that listings show of what is stored."""

import pytest

from fakes.memory_metadata import MemoryMetadata
from fakes.world import ManualClock, run
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import topic_key
from magnetar_broker.names import stored_names
from magnetar_broker.names.catalogue import Catalogue, Partitioned
from magnetar_broker.names.stored_names import StoredNames
from magnetar_proto.names import TopicName

NAMESPACE = "a/b"


def name(local: str, namespace: str = NAMESPACE) -> TopicName:
    return TopicName.parse(f"persistent://{namespace}/{local}")


def listed(logs: list[TopicName], parted: dict[TopicName, int], namespace: str) -> list[str]:
    clock = ManualClock()
    metadata = MemoryMetadata(clock)
    catalogue = Catalogue(GuardedMetadata(metadata, None))

    async def work() -> list[str]:
        for topic, partitions in parted.items():
            await catalogue.create_partitioned(topic, Partitioned(partitions))
        for topic in logs:
            await metadata.put(topic_key(topic), b"{}")
        return [
            one async for part in StoredNames(metadata, catalogue).of(namespace) for one in part
        ]

    names = run(work(), clock)
    assert len(names) == len(set(names))
    return sorted(names)


def test_partitions_are_listed_once_whether_or_not_they_were_used() -> None:
    parted = {name("parted"): 2}
    logs = [name("parted-partition-1"), name("other-partition-0"), name("plain")]
    expected = ["other-partition-0", "parted-partition-0", "parted-partition-1", "plain"]
    assert listed(logs, parted, NAMESPACE) == [str(name(local)) for local in expected]


def test_what_the_broker_keeps_for_itself_is_not_listed() -> None:
    logs = [name("__change_events"), name("__mine"), name("__change_events-partition-0")]
    assert listed(logs, {name("__transaction_buffer_snapshot"): 1}, NAMESPACE) == [
        str(name("__mine"))
    ]
    system = [name(local, "pulsar/system") for local in ("transaction_coordinator_assign", "plain")]
    assert listed(system, {}, "pulsar/system") == [str(system[1])]


@pytest.mark.parametrize("page", [1, 3, 1000])
def test_other_namespaces_are_not_looked_at(monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    monkeypatch.setattr(stored_names, "PAGE", page)
    mine = [name(local) for local in ("a", "b c%d", "é", "z+")]
    others = [name("a", "a/bb"), name("a", "a/a"), TopicName.parse("non-persistent://a/b/x")]
    assert listed(mine + others, {}, NAMESPACE) == sorted(map(str, mine))
