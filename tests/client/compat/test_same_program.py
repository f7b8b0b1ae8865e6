"""The same programs with the official Python client and with `magnetar.compat`."""

import os
import queue
import re
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pulsar
import pytest

import magnetar.compat
import magnetar.sync
from admin_http import Admin
from client.key_pairs import key_pair
from running_broker import RunningBroker

TIMEOUT_MS = 60_000
QUIET_MS = 300


def make_partitions(broker: RunningBroker, topic: str, count: int) -> None:
    path = topic.replace("://", "/")
    assert Admin(broker).put(f"{path}/partitions", count).status == 204


def texts(consumer: Any, count: int) -> list[str]:
    return [consumer.receive(TIMEOUT_MS).data().decode() for _ in range(count)]


def test_send_receive_and_acknowledge(api: ModuleType, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", consumer_name="c")
    producer = client.create_producer(topic, producer_name="p", properties={"a": "b"})
    sent = producer.send(
        b"one",
        properties={"lang": "en"},
        partition_key="key",
        ordering_key="order",
        sequence_id=7,
        event_timestamp=12345,
    )
    message = consumer.receive(timeout_millis=TIMEOUT_MS)
    assert (message.data(), message.value()) == (b"one", b"one")
    assert message.properties() == {"lang": "en"}
    assert (message.partition_key(), message.ordering_key()) == ("key", "order")
    assert message.event_timestamp() == 12345
    assert message.publish_timestamp() > 1_600_000_000_000
    assert message.message_id() == sent
    assert message.topic_name() == topic
    assert message.redelivery_count() == 0
    assert message.producer_name() == "p"
    assert message.schema_version() == ""
    assert message.encryption_context() is None
    assert not message.has_null_value()
    assert (consumer.topic(), consumer.subscription_name(), consumer.consumer_name()) == (
        topic, "s", "c",
    )  # fmt: skip
    assert (producer.topic(), producer.producer_name(), producer.last_sequence_id()) == (
        topic, "p", 7,
    )  # fmt: skip
    assert consumer.is_connected()
    assert producer.is_connected()
    assert consumer.get_last_message_id().entry_id() == sent.entry_id()
    consumer.acknowledge(message)
    producer.send(None, partition_key="key")
    tombstone = consumer.receive(TIMEOUT_MS)
    assert (tombstone.data(), tombstone.has_null_value()) == (b"", True)
    consumer.acknowledge_cumulative(tombstone.message_id())
    with pytest.raises(api.Timeout):
        consumer.receive(timeout_millis=QUIET_MS)
    consumer.close()
    with pytest.raises(api.AlreadyClosed):
        consumer.receive(1)
    again = client.subscribe(topic, "s")
    with pytest.raises(api.Timeout):
        again.receive(QUIET_MS)
    again.unsubscribe()


def test_callbacks_are_called_in_order_before_flush_returns(
    api: ModuleType, client: Any, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
    outcomes: list[Any] = []
    for number in range(3000):
        producer.send_async(b"%d" % number, lambda *outcome: outcomes.append(outcome))
    producer.flush()
    assert [result for result, _ in outcomes] == [api.Result.Ok] * 3000
    ids = [api.MessageId.wrap(message_id) for _, message_id in outcomes]
    assert sorted(ids) == ids
    producer.close()
    with pytest.raises(api.AlreadyClosed):
        producer.send(b"x")


def test_flush_waits_for_a_callback_that_takes_time(
    api: ModuleType, client: Any, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=True)
    go_on = threading.Event()
    outcomes: list[Any] = []

    def callback(result: Any, _: Any) -> None:
        go_on.wait(TIMEOUT_MS / 1000)
        outcomes.append(result)

    producer.send_async(b"x", callback)
    timer = threading.Timer(QUIET_MS / 1000, go_on.set)
    timer.start()
    producer.flush()
    assert outcomes == [api.Result.Ok]
    timer.join()


def test_a_full_queue_is_told_to_the_callback(api: ModuleType, client: Any, topic: str) -> None:
    producer = client.create_producer(
        topic, max_pending_messages=1, batching_enabled=True, batching_max_publish_delay_ms=50
    )
    outcomes: list[Any] = []
    for _ in range(200):
        producer.send_async(b"x", lambda result, _: outcomes.append(result))
    producer.flush()
    assert len(outcomes) == 200
    assert set(outcomes) == {api.Result.Ok, api.Result.ProducerQueueIsFull}


def test_a_listener_receives_in_a_thread_and_pauses(
    api: ModuleType, client: Any, topic: str
) -> None:
    heard: queue.Queue[tuple[str, int]] = queue.Queue()

    def listener(consumer: Any, message: Any) -> None:
        heard.put((message.data().decode(), threading.get_ident()))
        consumer.acknowledge(message)

    consumer = client.subscribe(topic, "s", message_listener=listener)
    producer = client.create_producer(topic)
    producer.send(b"one")
    text, thread = heard.get(timeout=TIMEOUT_MS / 1000)
    assert text == "one"
    assert thread != threading.get_ident()
    with pytest.raises(api.InvalidConfiguration):
        consumer.receive(1)
    consumer.pause_message_listener()
    producer.send(b"two")
    with pytest.raises(queue.Empty):
        heard.get(timeout=QUIET_MS / 1000)
    consumer.resume_message_listener()
    assert heard.get(timeout=TIMEOUT_MS / 1000)[0] == "two"


def test_a_reader_may_have_a_listener(api: ModuleType, client: Any, topic: str) -> None:
    heard: queue.Queue[bytes] = queue.Queue()
    producer = client.create_producer(topic)
    producer.send(b"one")
    client.create_reader(
        topic,
        api.MessageId.earliest,
        reader_listener=lambda reader, message: heard.put(message.data()),
    )
    assert heard.get(timeout=TIMEOUT_MS / 1000) == b"one"


def test_batch_receive_ends_at_its_limits(api: ModuleType, client: Any, topic: str) -> None:
    policy = api.ConsumerBatchReceivePolicy(3, -1, 2000)
    consumer = client.subscribe(topic, "s", batch_receive_policy=policy)
    producer = client.create_producer(topic)
    for text in ("a", "b", "c", "d"):
        producer.send(text.encode())
    assert [message.data() for message in consumer.batch_receive()] == [b"a", b"b", b"c"]
    rest = consumer.batch_receive()
    assert [message.data() for message in rest] == [b"d"]
    assert client.subscribe(topic, "t").batch_receive() == []


def test_negative_acknowledgements_and_redelivery(api: ModuleType, client: Any, topic: str) -> None:
    consumer = client.subscribe(
        topic, "s", api.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    client.create_producer(topic).send(b"one")
    first = consumer.receive(TIMEOUT_MS)
    consumer.negative_acknowledge(first)
    second = consumer.receive(TIMEOUT_MS)
    assert second.redelivery_count() == 1
    consumer.negative_acknowledge(second.message_id())
    assert consumer.receive(TIMEOUT_MS).redelivery_count() == 2
    consumer.redeliver_unacknowledged_messages()
    third = consumer.receive(TIMEOUT_MS)
    consumer.acknowledge(third.message_id())
    with pytest.raises(api.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(third)


def test_messages_that_fail_too_often_become_dead_letters(
    api: ModuleType, client: Any, topic: str
) -> None:
    policy = api.ConsumerDeadLetterPolicy(2, f"{topic}-dead", "kept")
    assert (policy.max_redeliver_count, policy.initial_subscription_name) == (2, "kept")
    consumer = client.subscribe(
        topic,
        "s",
        api.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=50,
        dead_letter_policy=policy,
    )
    client.create_producer(topic).send(b"poison")
    for _ in range(3):
        consumer.negative_acknowledge(consumer.receive(TIMEOUT_MS))
    dead = client.subscribe(
        f"{topic}-dead", "kept", initial_position=api.InitialPosition.Earliest
    ).receive(TIMEOUT_MS)
    assert dead.data() == b"poison"
    assert dead.properties()["REAL_TOPIC"] == topic


def test_seek(api: ModuleType, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(b"%d" % number) for number in range(5)]
    consumer = client.subscribe(topic, "s")
    consumer.seek(ids[2])
    assert texts(consumer, 2) == ["3", "4"]
    consumer.seek(api.MessageId.earliest)
    assert texts(consumer, 5) == ["0", "1", "2", "3", "4"]
    inclusive = client.subscribe(topic, "i", start_message_id_inclusive=True)
    inclusive.seek(ids[2])
    assert texts(inclusive, 2) == ["2", "3"]
    inclusive.seek(0)
    assert texts(inclusive, 1) == ["0"]
    inclusive.seek(api.MessageId.latest)
    producer.send(b"new")
    assert texts(inclusive, 1) == ["new"]
    with pytest.raises(ValueError):
        inclusive.seek("x")


def test_seek_into_a_batch(api: ModuleType, client: Any, topic: str) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=200
    )
    producer.send(b"before")
    for number in range(6):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    reader = client.create_reader(topic, api.MessageId.earliest)
    messages = [reader.read_next(TIMEOUT_MS) for _ in range(7)]
    target = messages[3].message_id()
    consumer = client.subscribe(topic, "s")
    consumer.seek(target)
    assert texts(consumer, 3) == ["3", "4", "5"]
    reader.seek(target)
    assert reader.read_next(TIMEOUT_MS).data() == b"3"


def test_readers(api: ModuleType, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(b"%d" % number) for number in range(4)]
    reader = client.create_reader(topic, ids[1], reader_name="r", subscription_role_prefix="x")
    assert reader.topic() == topic
    assert reader.is_connected()
    assert reader.read_next(TIMEOUT_MS).data() == b"2"
    assert reader.has_message_available()
    reader.seek(ids[3])
    assert not reader.has_message_available()
    reader.seek(ids[0])
    assert reader.read_next(timeout_millis=TIMEOUT_MS).data() == b"1"
    inclusive = client.create_reader(topic, ids[1], start_message_id_inclusive=True)
    assert inclusive.read_next(TIMEOUT_MS).data() == b"1"
    inclusive.seek(ids[2])
    assert inclusive.read_next(TIMEOUT_MS).data() == b"2"
    latest = client.create_reader(topic, api.MessageId.latest)
    with pytest.raises(api.Timeout):
        latest.read_next(QUIET_MS)
    latest.close()
    with pytest.raises(api.AlreadyClosed):
        latest.read_next(1)


def test_table_views(client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"1", partition_key="a")
    producer.send(b"2", partition_key="b")
    view = client.create_table_view(topic)
    assert (len(view), view.get("a"), view.get("none")) == (2, b"1", None)
    there: dict[str, bytes] = {}
    view.for_each(there.__setitem__)
    assert there == {"a": b"1", "b": b"2"}
    told: queue.Queue[tuple[str, bytes]] = queue.Queue()
    view.for_each_and_listen(lambda key, value: told.put((key, value)))
    assert {told.get_nowait(), told.get_nowait()} == {("a", b"1"), ("b", b"2")}
    producer.send(b"3", partition_key="a")
    assert told.get(timeout=TIMEOUT_MS / 1000) == ("a", b"3")
    assert view.get("a") == b"3"
    view.close()


def test_a_table_view_of_keys_that_are_bytes(
    client: Any, topic: str, broker: RunningBroker
) -> None:
    with magnetar.sync.connect(broker.service_url) as other:
        other.producer(topic).send(b"1", key=b"\xff\x00")
    view = client.create_table_view(topic)
    there: dict[str, bytes] = {}
    view.for_each(there.__setitem__)
    assert there == {"/wA=": b"1"}
    assert (view.get("/wA="), view.get("wA")) == (b"1", None)
    view.close()


def test_several_topics_and_patterns(api: ModuleType, client: Any, topic: str) -> None:
    for name in ("x", "y"):
        client.create_producer(f"{topic}-{name}").send(name.encode())
    first = api.InitialPosition.Earliest
    both = client.subscribe([f"{topic}-x", f"{topic}-y"], "s", initial_position=first)
    messages = [both.receive(TIMEOUT_MS) for _ in range(2)]
    assert {message.data() for message in messages} == {b"x", b"y"}
    for message in messages:
        both.acknowledge(message.message_id())
    with pytest.raises(api.OperationNotSupported):
        both.get_last_message_id()
    local = topic.rpartition("/")[2]
    for pattern in (f"{topic}-.*", f"public/default/{local}-.*"):
        found = client.subscribe(re.compile(pattern), uuid.uuid4().hex, initial_position=first)
        assert {found.receive(TIMEOUT_MS).data() for _ in range(2)} == {b"x", b"y"}


def test_keys_go_to_the_same_partitions(
    broker: RunningBroker, official: pulsar.Client, topic: str
) -> None:
    make_partitions(broker, topic, 7)
    keys = [uuid.uuid4().hex[: length % 33 or 1] for length in range(1, 100)] + ["ü", "日本語"]
    theirs = official.create_producer(topic)
    with_compat = magnetar.compat.Client(broker.service_url)
    ours = with_compat.create_producer(topic)
    for key in keys:
        expected = theirs.send(b"", partition_key=key).partition()
        assert ours.send(b"", partition_key=key).partition() == expected, key
    with_compat.close()


def test_routing(api: ModuleType, client: Any, broker: RunningBroker, topic: str) -> None:
    make_partitions(broker, topic, 3)
    assert client.get_topic_partitions(topic) == [f"{topic}-partition-{n}" for n in range(3)]
    assert client.get_topic_partitions(f"{topic}-other") == [f"{topic}-other"]
    seen: list[tuple[bytes, str, int]] = []

    def router(message: Any, count: int) -> int:
        seen.append((message.data(), message.partition_key(), count))
        return 2

    routed = client.create_producer(topic, message_router=router)
    assert routed.send(b"one", partition_key="k").partition() == 2
    assert seen == [(b"one", "k", 3)]
    single = client.create_producer(
        topic, message_routing_mode=api.PartitionsRoutingMode.UseSinglePartition
    )
    assert len({single.send(b"x").partition() for _ in range(6)}) == 1
    turns = client.create_producer(topic, lazy_start_partitioned_producers=True)
    assert {turns.send(b"x").partition() for _ in range(6)} == {0, 1, 2}


def test_compression_chunks_and_delays(api: ModuleType, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", api.ConsumerType.Shared)
    for name in api.CompressionType.__members__:
        kind = getattr(api.CompressionType, name)
        client.create_producer(topic, compression_type=kind).send(b"x" * 1000)
        assert consumer.receive(TIMEOUT_MS).data() == b"x" * 1000
    plain = client.create_producer(topic)
    with pytest.raises(api.MessageTooBig):
        plain.send(bytes(6 * 1024 * 1024))
    chunked = client.create_producer(topic, chunking_enabled=True)
    chunked.send(os.urandom(6 * 1024 * 1024))
    large = consumer.receive(TIMEOUT_MS)
    assert len(large.data()) == 6 * 1024 * 1024
    consumer.acknowledge(large)
    plain.send(b"later", deliver_after=timedelta(milliseconds=500))
    plain.send(b"now")
    assert texts(consumer, 2) == ["now", "later"]


def test_access_modes(api: ModuleType, client: Any, topic: str) -> None:
    owner = client.create_producer(topic, access_mode=api.ProducerAccessMode.Exclusive)
    with pytest.raises(api.ProducerFenced):
        client.create_producer(topic, access_mode=api.ProducerAccessMode.Exclusive)
    client.create_producer(topic, access_mode=api.ProducerAccessMode.ExclusiveWithFencing)
    with pytest.raises((api.ProducerFenced, api.AlreadyClosed)):
        owner.send(b"x")


def test_text(api: ModuleType, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=api.schema.StringSchema())
    producer = client.create_producer(topic, schema=api.schema.StringSchema())
    producer.send("grün")
    message = consumer.receive(TIMEOUT_MS)
    assert (message.value(), message.data()) == ("grün", "grün".encode())
    with pytest.raises(TypeError):
        producer.send(b"bytes")


@pytest.fixture
def key_files(tmp_path: Path) -> tuple[str, str]:
    """The public and the private key of one pair."""
    public, private = key_pair("letters")
    (tmp_path / "public.pem").write_bytes(public)
    (tmp_path / "private.pem").write_bytes(private)
    return str(tmp_path / "public.pem"), str(tmp_path / "private.pem")


@pytest.mark.parametrize("batching", [True, False])
def test_encryption(
    api: ModuleType, client: Any, topic: str, key_files: tuple[str, str], batching: bool
) -> None:
    keys = api.CryptoKeyReader(*key_files)
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    as_stored = client.subscribe(
        topic, "without", crypto_failure_action=api.ConsumerCryptoFailureAction.CONSUME
    )
    discards = client.subscribe(
        topic, "discards", crypto_failure_action=api.ConsumerCryptoFailureAction.DISCARD
    )
    producer = client.create_producer(
        topic,
        encryption_key="letters",
        crypto_key_reader=keys,
        batching_enabled=batching,
        compression_type=api.CompressionType.LZ4,
    )
    producer.send(b"for you only")
    client.create_producer(topic).send(b"for all")
    message = consumer.receive(TIMEOUT_MS)
    assert message.data() == b"for you only"
    context = message.encryption_context()
    [key] = context.keys()
    assert (key.key, key.metadata, len(key.value)) == ("letters", {}, 256)
    assert len(context.param()) == 12
    assert not context.is_decryption_failed()
    assert context.compression_type() == api.CompressionType.LZ4
    assert consumer.receive(TIMEOUT_MS).encryption_context() is None
    stored = as_stored.receive(TIMEOUT_MS)
    assert b"for you only" not in stored.data()
    assert stored.encryption_context().is_decryption_failed()
    assert discards.receive(TIMEOUT_MS).data() == b"for all"

    reader = client.create_reader(topic, api.MessageId.earliest, crypto_key_reader=keys)
    assert reader.read_next(TIMEOUT_MS).data() == b"for you only"


def test_key_shared(api: ModuleType, client: Any, topic: str) -> None:
    mode = api.KeySharedMode.Sticky
    for start, end in ((0, 32767), (32768, 65535)):
        policy = api.ConsumerKeySharedPolicy(mode, sticky_ranges=[(start, end)])
        assert policy.sticky_ranges == [(start, end)]
        client.subscribe(topic, "s", api.ConsumerType.KeyShared, key_shared_policy=policy)
    policy = api.ConsumerKeySharedPolicy(mode, sticky_ranges=[(0, 1)])
    with pytest.raises((api.ConsumerAssignError, api.NotAllowedError)):
        client.subscribe(topic, "s", api.ConsumerType.KeyShared, key_shared_policy=policy)
    with pytest.raises(ValueError, match="sticky_ranges"):
        api.ConsumerKeySharedPolicy(mode)


def test_refusals(api: ModuleType, client: Any, topic: str) -> None:
    client.subscribe(topic, "s")
    with pytest.raises(api.ConsumerBusy):
        client.subscribe(topic, "s")
    with pytest.raises(ValueError, match="schema"):
        client.subscribe(topic, "x", schema="none")
    with pytest.raises(ValueError, match="10"):
        client.subscribe(topic, "x", unacked_messages_timeout_ms=10)
    with pytest.raises(ValueError, match="atching"):
        client.create_producer(topic, batching_enabled=True, chunking_enabled=True)
    with pytest.raises(ValueError, match="foo"):
        api.Client("foo://x")


def test_ids(api: ModuleType, client: Any, topic: str) -> None:
    sent = client.create_producer(topic).send(b"x")
    made = api.MessageId(sent.partition(), sent.ledger_id(), sent.entry_id(), sent.batch_index())
    assert made.serialize() == sent.serialize()
    assert str(made) == str(sent)
    assert api.MessageId.wrap(api.MessageId.deserialize(made.serialize())) == made
    assert api.MessageId(0, 1, 2, 3) < api.MessageId(0, 1, 3, 0) < api.MessageId(0, 2, 0, 0)
    assert api.MessageId.earliest < sent < api.MessageId.latest


def test_the_client_closes_what_it_opened(
    api: ModuleType, connect: Callable[..., Any], topic: str
) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    client.close()
    for call in (
        lambda: consumer.receive(1),
        lambda: producer.send(b"x"),
        lambda: client.create_producer(topic),
        client.close,
    ):
        with pytest.raises(api.AlreadyClosed):
            call()
    other = connect()
    other.subscribe(topic, "s")
    other.shutdown()


def test_a_reader_begins_with_the_last_message(api: ModuleType, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    for number in range(3):
        producer.send(b"%d" % number)
    reader = client.create_reader(topic, api.MessageId.latest, start_message_id_inclusive=True)
    assert reader.has_message_available()
    assert reader.read_next(60_000).data() == b"2"
    assert not reader.has_message_available()


def test_a_message_in_chunks_is_a_place_to_begin(api: ModuleType, client: Any, topic: str) -> None:
    producer = client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    large = bytes(6 << 20)
    producer.send(b"before")
    sent = producer.send(large)
    producer.send(b"after")
    for start in (sent, api.MessageId.deserialize(sent.serialize())):
        reader = client.create_reader(topic, start, start_message_id_inclusive=True)
        assert reader.read_next(60_000).data() == large
        assert reader.read_next(60_000).data() == b"after"
        reader.seek(start)
        assert reader.read_next(60_000).data() == large
