"""Frames that subscriptions share: each consumer still gets its own."""

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.topics import EXCLUSIVE, SHARED, TopicWorld
from magnetar_broker.dispatch.frames import CACHE_BYTES, FrameCache
from magnetar_broker.limits.topic_limits import TopicLimits
from magnetar_proto.deliveries import decode_message
from magnetar_proto.frames import FrameDecoder


def read(buffers: list[bytes]) -> list[tuple[int, int | None, int, int, bytes]]:
    """Consumer id, epoch, ledger, entry and payload of each frame."""
    found = []
    for _, buf, start, mid, payload in FrameDecoder(1 << 24).feed(b"".join(buffers)):
        got = decode_message(buf, start, mid)
        row = got.consumer_id, got.consumer_epoch, got.ledger, got.entry, payload
        assert (got.partition, got.redelivery_count, got.ack_set) == (3, 0, ())
        found.append(row)
    return found


def test_the_same_run_for_the_same_id_is_built_once_a_turn() -> None:
    cache = FrameCache(3)
    cache.shared = True
    payloads = [b"a", b"bb"]
    first = cache.of(7, -1, 5, 10, payloads)
    assert cache.of(7, -1, 5, 10, payloads) is first
    assert read(first.buffers) == [(7, None, 5, 10, b"a"), (7, None, 5, 11, b"bb")]
    assert (first.size, first.payload_bytes) == (sum(map(len, first.buffers)), 3)
    cache.forget()
    cache.shared = True
    assert cache.of(7, -1, 5, 10, payloads) is not first


def test_what_differs_in_anything_is_not_shared() -> None:
    cache = FrameCache(3)
    cache.shared = True
    payloads = [b"a", b"bb", b"ccc"]
    for consumer, epoch, ledger, entry, n in (
        (7, -1, 5, 10, 3), (8, -1, 5, 10, 3), (7, 0, 5, 10, 3), (7, 2, 5, 10, 3),
        (7, -1, 6, 10, 3), (7, -1, 5, 11, 3), (7, -1, 5, 10, 2), (7, -1, 5, 10, 1),
    ):  # fmt: skip
        shown = epoch if epoch >= 0 else None
        assert read(cache.of(consumer, epoch, ledger, entry, payloads[:n]).buffers) == [
            (consumer, shown, ledger, entry + i, payload) for i, payload in enumerate(payloads[:n])
        ]


def test_nothing_is_kept_for_one_subscription_alone() -> None:
    cache = FrameCache(3)
    assert cache.of(7, -1, 5, 10, [b"a"]) is not cache.of(7, -1, 5, 10, [b"a"])


def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    cache = FrameCache(3)
    cache.shared = True
    payloads = [bytes(CACHE_BYTES // 4)] * 2
    runs = [cache.of(7, -1, 5, entry, payloads) for entry in (0, 2, 4)]
    assert cache.of(7, -1, 5, 4, payloads) is runs[2]
    assert cache.of(7, -1, 5, 0, payloads) is not runs[0]


def test_a_woken_topic_builds_a_run_once_and_keeps_nothing() -> None:
    world = TopicWorld()
    first = world.subscribe(sub="a", consumer_id=1, permits=100)
    second = world.subscribe(sub="b", consumer_id=1, permits=100)
    built: list[int] = []
    build = world.topic.frames._build

    def counting(*asked: object) -> object:
        built.append(1)
        return build(*asked)  # type: ignore[arg-type]

    world.topic.frames._build = counting  # type: ignore[assignment, method-assign]
    world.publish(b"x", b"y", b"z")
    assert world.offsets(first) == world.offsets(second) == [0, 1, 2]
    assert built == [1]
    assert not world.topic.frames._cached


consumers = st.lists(
    st.tuples(
        st.sampled_from([EXCLUSIVE, SHARED]),
        st.integers(1, 2),  # consumer id
        st.sampled_from([-1, 0, 4]),  # epoch
        st.integers(1, 40),  # permits
        st.sets(st.integers(0, 20)),  # acknowledged
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=examples(60))
@given(consumers, st.lists(st.integers(1, 8), min_size=1, max_size=4), st.integers(1, 7))
def test_each_consumer_gets_every_entry_with_its_own_id_and_epoch(
    wanted: list[tuple[int, int, int, int, set[int]]], runs: list[int], max_read: int
) -> None:
    world = TopicWorld(TopicLimits(max_read_entries=max_read))
    joined = [
        world.subscribe(sub=f"s{i}", sub_type=kind, consumer_id=number, epoch=epoch)
        for i, (kind, number, epoch, _, _) in enumerate(wanted)
    ]
    world.publish(b"first")
    for consumer, (*_, permits, _) in zip(joined, wanted, strict=True):
        consumer.permits = permits  # as if it had sent FLOW: the next entries wake all at once
    payloads = [b"%d" % i * (i % 3) for i in range(sum(runs))]
    for consumer, (*_, acked) in zip(joined, wanted, strict=True):
        world.subscription(f"s{joined.index(consumer)}").cursor.ack(sorted(acked))
    for n in runs:
        world.publish(*payloads[:n])
        payloads = payloads[n:]
    for consumer, (kind, number, epoch, permits, acked) in zip(joined, wanted, strict=True):
        left = [offset for offset in range(1 + sum(runs)) if offset not in acked]
        got = world.got(consumer)
        assert [world.offset(message) for message in got] == left[:permits]
        shown = epoch if epoch >= 0 and kind == EXCLUSIVE else None
        assert {(m.consumer_id, m.epoch) for m in got} <= {(number, shown)}
        for message in got:
            run = world.topic.log.tail.get(world.offset(message), 1, 1)
            assert run is not None and run.payloads == [message.payload]
