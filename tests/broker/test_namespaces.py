"""Namespaces and partitioned topics by name."""

import pytest

from fakes.logs import LogWorld
from magnetar_broker import namespaces as module
from magnetar_broker.errors import NamespaceMissing
from magnetar_broker.metadata_keys import topic_key
from magnetar_broker.namespaces import AlreadyExists, Namespaces
from magnetar_proto.names import NamespaceName, TopicName
from magnetar_storage.log import Log


class Names:
    """Namespaces over a metadata store in memory."""

    def __init__(self, auto_create: bool = True) -> None:
        self.world = LogWorld()
        self.all = Namespaces(self.world.metadata, auto_create)
        self.do = self.world.do

    def store(self, name: str) -> None:
        self.do(Log.open(topic_key(TopicName.parse(name)), self.world.engine, create=True))


def topic(local: str) -> TopicName:
    return TopicName.parse(f"persistent://tenant/space/{local}")


def test_a_namespace_must_exist_or_be_made_on_its_first_use() -> None:
    strict = Names(auto_create=False)
    with pytest.raises(NamespaceMissing, match="tenant/space"):
        strict.do(strict.all.require("tenant/space"))
    assert not strict.do(strict.all.has("tenant/space"))
    strict.do(strict.all.create(NamespaceName.parse("tenant/space")))
    strict.do(strict.all.create(NamespaceName.parse("tenant/space")))
    strict.do(strict.all.require("tenant/space"))

    lax = Names(auto_create=True)
    lax.do(lax.all.require("tenant/space"))
    assert lax.do(lax.all.has("tenant/space"))


def test_what_another_process_made_is_found() -> None:
    names = Names(auto_create=False)
    other = Namespaces(names.world.metadata, auto_create=False)
    names.do(other.create(NamespaceName.parse("tenant/space")))
    names.do(names.all.require("tenant/space"))


def test_partitions_are_those_of_the_base() -> None:
    names = Names()
    assert names.do(names.all.partitions(topic("orders"))) == 0
    names.do(names.all.create_partitioned(topic("orders"), 3))
    for name in (topic("orders"), topic("orders-partition-1"), topic("orders-partition-9")):
        assert names.do(names.all.partitions(name)) == 3
    assert names.do(names.all.partitions(topic("other"))) == 0
    volatile = TopicName.parse("non-persistent://tenant/space/orders")
    assert names.do(names.all.partitions(volatile)) == 0


def test_a_name_is_partitioned_or_not_and_only_once() -> None:
    names = Names()
    names.do(names.all.create_partitioned(topic("orders"), 3))
    with pytest.raises(AlreadyExists, match="is a partitioned topic already"):
        names.do(names.all.create_partitioned(topic("orders"), 4))
    assert names.do(names.all.partitions(topic("orders"))) == 3
    names.store("persistent://tenant/space/plain")
    with pytest.raises(AlreadyExists, match="not partitioned"):
        names.do(names.all.create_partitioned(topic("plain"), 3))


def test_topics_are_what_is_stored_and_every_partition() -> None:
    names = Names()
    odd = "späß & more+%2F~"
    for local in ("b", "a", odd):
        names.store(f"persistent://tenant/space/{local}")
    names.store("persistent://tenant/space2/elsewhere")
    names.do(names.all.create_partitioned(topic("p"), 2))
    names.store("persistent://tenant/space/p-partition-1")
    assert names.do(names.all.topics("tenant/space")) == sorted(
        [topic("a"), topic("b"), topic(odd), topic("p-partition-0"), topic("p-partition-1")]
    )
    assert names.do(names.all.exists(topic(odd)))
    assert not names.do(names.all.exists(topic("p")))


@pytest.mark.parametrize("stored", [0, 3, 4, 5, 8])
def test_long_lists_are_read_page_by_page(stored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 4)
    names = Names()
    for number in range(stored):
        names.store(f"persistent://tenant/space/t{number}")
    assert len(names.do(names.all.topics("tenant/space"))) == stored
