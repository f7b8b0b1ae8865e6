"""Which topics there are by name."""

from dataclasses import replace

import pytest

from fakes.logs import LogWorld
from magnetar_broker.base import records
from magnetar_broker.base.errors import AlreadyExists, TopicNotFound
from magnetar_broker.base.guarded_metadata import GuardedMetadata
from magnetar_broker.base.metadata_keys import partitions_key, topic_key
from magnetar_broker.names.catalogue import Catalogue, Partitioned
from magnetar_proto.names import TopicName
from magnetar_storage.log.log import Log


class Names:
    """A catalogue over a metadata store in memory."""

    def __init__(self) -> None:
        self.world = LogWorld()
        self.all = Catalogue(GuardedMetadata(self.world.metadata, None))
        self.do = self.world.do

    def store(self, name: str) -> None:
        self.do(Log.open(topic_key(TopicName.parse(name)), self.world.engine, create=True))

    def part(self, local: str, partitions: int) -> None:
        self.do(self.all.create_partitioned(topic(local), Partitioned(partitions)))


def topic(local: str) -> TopicName:
    return TopicName.parse(f"persistent://tenant/space/{local}")


def test_partitions_are_those_of_the_base() -> None:
    names = Names()
    assert names.do(names.all.partitions(topic("orders"))) == 0
    names.part("orders", 3)
    for name in (topic("orders"), topic("orders-partition-1"), topic("orders-partition-9")):
        assert names.do(names.all.partitions(name)) == 3
    assert names.do(names.all.partitions(topic("other"))) == 0
    volatile = TopicName.parse("non-persistent://tenant/space/orders")
    assert names.do(names.all.partitions(volatile)) == 0


def test_a_name_is_partitioned_or_not_and_only_once() -> None:
    names = Names()
    names.part("orders", 3)
    with pytest.raises(AlreadyExists, match="already exists as a partitioned"):
        names.part("orders", 4)
    assert names.do(names.all.partitions(topic("orders"))) == 3
    names.store("persistent://tenant/space/plain")
    with pytest.raises(AlreadyExists, match="not partitioned"):
        names.part("plain", 3)


def test_a_partitioned_topic_changes_and_goes() -> None:
    names = Names()
    names.part("orders", 3)
    names.do(names.all.grow(topic("orders"), 5))
    names.do(
        names.all.change_partitioned(topic("orders"), lambda o: replace(o, properties={"a": "b"}))
    )
    for catalogue in (names.all, Catalogue(GuardedMetadata(names.world.metadata, None))):
        assert names.do(catalogue.partitioned(topic("orders"))) == Partitioned(5, {"a": "b"})
    names.do(names.all.change_partitioned(topic("orders"), lambda o: replace(o, properties={})))
    assert names.do(names.all.partitioned(topic("orders"))) == Partitioned(5)
    names.do(names.all.delete_partitioned(topic("orders")))
    names.do(names.all.delete_partitioned(topic("orders")))
    for catalogue in (names.all, Catalogue(GuardedMetadata(names.world.metadata, None))):
        assert names.do(catalogue.partitioned(topic("orders"))) is None
    with pytest.raises(TopicNotFound, match="orders is not a partitioned topic"):
        names.do(names.all.grow(topic("orders"), 5))


def test_unknown_fields_stay() -> None:
    names = Names()
    key = partitions_key(topic("orders"))
    names.do(names.world.metadata.put(key, b'{"partitions": 2, "later": 1}'))
    names.do(names.all.grow(topic("orders"), 3))
    stored = names.do(names.world.metadata.get(key))
    assert stored is not None
    assert stored.value == b'{"partitions": 3, "later": 1}'


def test_topics_are_what_is_stored_and_every_partition() -> None:
    names = Names()
    odd = "späß & more+%2F~"
    for local in ("b", "a", odd):
        names.store(f"persistent://tenant/space/{local}")
    names.store("persistent://tenant/space2/elsewhere")
    names.part("p", 2)
    names.store("persistent://tenant/space/p-partition-1")
    names.store("persistent://tenant/space/p-partition-7")  # made for a growth that never came
    assert names.do(names.all.topics("tenant/space")) == sorted(
        [topic("a"), topic("b"), topic(odd), topic("p-partition-0"), topic("p-partition-1")]
    )
    assert names.do(names.all.partitioned_topics("tenant/space", "persistent")) == [topic("p")]
    assert names.do(names.all.exists(topic(odd)))
    assert not names.do(names.all.exists(topic("p")))


def test_a_family_is_every_log_of_a_topic() -> None:
    names = Names()
    for local in ("p-partition-1", "p-partition-12", "p-partition-x", "pp", "p-partition-0-more"):
        names.store(f"persistent://tenant/space/{local}")
    parts = [topic("p-partition-1"), topic("p-partition-12")]
    assert names.do(names.all.family(topic("p"))) == parts
    names.store("persistent://tenant/space/p")
    assert names.do(names.all.family(topic("p"))) == [*parts, topic("p")]
    assert names.do(names.all.family(topic("nothing"))) == []


@pytest.mark.parametrize("stored", [0, 3, 4, 5, 8])
def test_long_lists_are_read_page_by_page(stored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "PAGE", 4)
    names = Names()
    for number in range(stored):
        names.store(f"persistent://tenant/space/t{number}")
    assert len(names.do(names.all.topics("tenant/space"))) == stored
