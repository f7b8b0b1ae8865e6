"""Objects and metadata that belong together, and those that do not."""

import pytest

from fakes.faulty_objects import FaultyObjects
from fakes.memory_metadata import MemoryMetadata
from fakes.world import InlineWorker, ManualClock, start
from magnetar_broker.server.remote_data.belonging import KEY, OBJECT, belong
from magnetar_storage.errors import Incomplete
from magnetar_storage.objects.creation import NONCE_BYTES

FIRST, SECOND = b"1" * NONCE_BYTES, b"2" * NONCE_BYTES


class Stores:
    """A store of objects and one of metadata, both new."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.objects = FaultyObjects()
        self.metadata = MemoryMetadata(self.clock)

    def belong(self, new_id: bytes = FIRST) -> bytes:
        """Return the id of the data, as a broker does at its start."""
        running = start(
            belong(
                self.objects, self.metadata, InlineWorker(self.clock), self.clock, new_id,
                ("s3://bucket", "etcd:host"),
            )
        )  # fmt: skip
        self.clock.pump()
        found: bytes = running.result()
        return found

    def ids(self) -> list[str]:
        """Return the names and keys that there are."""
        listed = start(self.metadata.list(""))
        return [*self.objects.names(), *listed.result()]


def refused(stores: Stores) -> str:
    before = stores.ids()
    with pytest.raises(Incomplete) as refusal:
        stores.belong(SECOND)
    assert stores.ids() == before  # nothing is written for a start that is refused
    return str(refusal.value)


def test_new_stores_get_one_id_which_stays() -> None:
    stores = Stores()
    assert stores.belong(FIRST) == FIRST
    assert stores.belong(SECOND) == FIRST
    assert stores.ids() == [OBJECT, KEY]


def test_a_first_start_that_ended_between_its_two_writes_goes_on() -> None:
    stores = Stores()
    stores.objects.put(OBJECT, FIRST)
    assert stores.belong(SECOND) == FIRST


def test_objects_are_not_used_with_new_metadata() -> None:
    stores = Stores()
    stores.belong()
    stores.objects.put("wal/00000001/000000000000", b"data")
    stores.metadata = MemoryMetadata(stores.clock)
    text = refused(stores)
    assert text.startswith("s3://bucket and etcd:host do not belong together: the metadata has no")
    assert "magnetarSegmentStore and metadataStoreUrl" in text


def test_metadata_is_not_used_with_new_objects() -> None:
    stores = Stores()
    stores.belong()
    stores.objects = FaultyObjects()
    assert "the objects have no id" in refused(stores)


def test_stores_of_two_installations_are_not_mixed() -> None:
    stores, others = Stores(), Stores()
    stores.belong(FIRST)
    others.belong(SECOND)
    stores.objects = others.objects
    assert "the objects have another id" in refused(stores)


def test_a_bucket_with_other_objects_is_not_used() -> None:
    stores = Stores()
    stores.objects.put("photo.jpg", b"data")
    assert f"there is the object photo.jpg, and none named {OBJECT}" in refused(stores)
