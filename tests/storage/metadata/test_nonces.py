"""Values that no two writes share."""

from itertools import count

import pytest

from fakes.memory_metadata import MemoryMetadata
from fakes.unreliable_metadata import Fate, UnreliableMetadata
from fakes.world import ManualClock, run, start
from magnetar_storage.errors import BadVersion, Corrupt
from magnetar_storage.interfaces import ABSENT, RESYNC, Change, Changes, MetadataStore, Resync
from magnetar_storage.metadata.nonces import HEAD_BYTES, NONCE_BYTES, NonceMetadata
from magnetar_storage.metadata.retrying import RetryingMetadata

NUMBERS = count()


def new_nonce() -> bytes:
    return next(NUMBERS).to_bytes(NONCE_BYTES, "big")


async def next_of(watch: Changes) -> Change | Resync:
    return await anext(watch)


def test_a_writer_does_not_take_the_equal_value_of_another_for_its_own() -> None:
    clock = ManualClock()
    store = UnreliableMetadata(clock)
    mine, other = (
        NonceMetadata(RetryingMetadata(store, clock), new_nonce),
        NonceMetadata(store, new_nonce),
    )
    store.fates.append(Fate.NOT_MADE)
    put = start(mine.put("/leader", b"equal", ABSENT))
    run(other.put("/leader", b"equal", ABSENT), clock)
    clock.advance(1)
    with pytest.raises(BadVersion):
        put.result()


def test_a_writer_recognizes_its_own_value() -> None:
    clock = ManualClock()
    store = UnreliableMetadata(clock)
    mine = NonceMetadata(RetryingMetadata(store, clock), new_nonce)
    store.fates.append(Fate.LOST)
    version = run(mine.put("/leader", b"mine", ABSENT), clock)
    assert run(mine.get("/leader"), clock) == (b"mine", version)
    assert len(store.landed) == 1


@pytest.mark.parametrize("value", [b"", b"text", bytes(HEAD_BYTES), b"\x01" * (HEAD_BYTES - 1)])
def test_what_something_else_has_written_is_damaged(value: bytes) -> None:
    clock = ManualClock()
    store: MetadataStore = MemoryMetadata(clock)
    mine = NonceMetadata(store, new_nonce)
    watch = mine.watch("/")
    assert run(next_of(watch), clock) is RESYNC
    run(store.put("/a", value), clock)
    with pytest.raises(Corrupt, match="was not written by a broker"):
        run(mine.get("/a"), clock)
    ((key, found),) = run(mine.read_under("/"), clock)
    assert key == "/a" and isinstance(found, Corrupt)
    assert run(next_of(watch), clock) is RESYNC
