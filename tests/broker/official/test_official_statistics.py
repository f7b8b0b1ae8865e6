"""Statistics over REST of official clients, with one process and with three."""

import time
from collections.abc import Callable
from typing import Any

import pulsar
import pytest

from admin_http import Admin
from official import Again, batching, connect, either_way, publish, publish_batch, take
from running_broker import RunningBroker

SHARED, KEY_SHARED = pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared
ROUND_ROBIN = pulsar.PartitionsRoutingMode.RoundRobinDistribution
PATIENCE_SECONDS = 60
MakeBroker = Callable[..., RunningBroker]
by_workers = pytest.mark.parametrize("workers", ["1", "3"])


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def stats(broker: RunningBroker, topic: str, query: str = "") -> dict[str, Any]:
    answer = Admin(broker).get(f"{path_of(topic)}/stats{query}")
    assert answer.status == 200, answer
    return answer.json  # type: ignore[no-any-return]


def awaited(read: Callable[[], Any], is_there: Callable[[Any], bool]) -> Any:
    """Return the result of `read` as soon as it satisfies `is_there`."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_there(value := read()):
        assert time.monotonic() < until, value
        time.sleep(0.05)
    return value


def test_counters_and_clients(broker: RunningBroker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "sub", SHARED, consumer_name="you", properties={"x": "y"})
    producer = client.create_producer(topic, producer_name="me", properties={"a": "b"})
    publish(producer, "one", "two", "three")
    publish_batch(batching(client, topic), *map(str, range(10)))
    for message in take(consumer, 13)[:2]:
        consumer.acknowledge(message)
    found = awaited(
        lambda: stats(broker, topic), lambda s: s["subscriptions"]["sub"]["msgBacklog"] == 11
    )
    sub, one = found["subscriptions"]["sub"], found["subscriptions"]["sub"]["consumers"][0]
    assert (found["msgInCounter"], found["msgOutCounter"]) == (13, 13)
    assert (sub["unackedMessages"], one["unackedMessages"]) == (11, 11)
    assert (sub["type"], sub["isDurable"], sub["durable"]) == ("Shared", True, True)
    assert sub["msgBacklogNoDelayed"] == 11
    assert sub["backlogSize"] == found["backlogSize"] <= found["storageSize"]
    assert (one["consumerName"], one["metadata"]) == ("you", {"x": "y"})
    assert one["address"].startswith("/127.0.0.1:")
    assert one["clientVersion"].startswith("Pulsar-CPP")
    assert one["avgMessagesPerEntry"] == round(13 / 4)
    assert 0 < one["firstConsumedFlowTimestamp"] <= one["firstMessagesSentTimestamp"]
    assert one["lastConsumedTimestamp"] <= one["lastAckedTimestamp"] == sub["lastAckedTimestamp"]
    me = next(each for each in found["publishers"] if each["producerName"] == "me")
    assert (me["accessMode"], me["metadata"]) == ("Shared", {"a": "b"})
    assert found["oldestBacklogMessageSubscriptionName"] == "sub"
    lean = stats(broker, topic, "?excludePublishers=true&excludeConsumers=true")
    assert (lean["publishers"], lean["subscriptions"]["sub"]["consumers"]) == ([], [])


def test_properties_of_a_subscription_are_not_those_of_its_cursor(
    broker: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    """Clients expect numbers there; the Java client waits for its timeout on any other answer."""
    client.create_producer(topic)
    admin, path = Admin(broker), f"{path_of(topic)}/subscription/sub"
    assert admin.put(path, "latest").status == 204
    assert admin.put(f"{path}/properties", {"team": "a"}).status == 204
    found = stats(broker, topic)["subscriptions"]["sub"]
    assert found["subscriptionProperties"] == {"team": "a"}
    stored = admin.get(f"{path_of(topic)}/internalStats").json
    assert stored["cursors"]["sub"]["properties"] == {}


@by_workers
def test_rates_are_those_of_the_last_window(make_broker: MakeBroker, workers: str) -> None:
    broker = make_broker(statsUpdateFrequencyInSecs="1", magnetarWorkers=workers)
    topic, client = "persistent://public/default/rates", connect(broker.service_url)
    consumer = client.subscribe(topic, "sub", SHARED)
    producer = client.create_producer(topic)
    moving: dict[str, Any] = {}
    until = time.monotonic() + PATIENCE_SECONDS
    while not moving:  # a window has both publishing and acknowledging in it
        publish(producer, "a", "b")
        for message in take(consumer, 2):
            consumer.acknowledge(message)
        found = stats(broker, topic)
        if found["msgRateIn"] and found["subscriptions"]["sub"]["messageAckRate"]:
            moving = found
        assert time.monotonic() < until
    sub = moving["subscriptions"]["sub"]
    assert moving["publishers"][0]["msgRateIn"] == moving["msgRateIn"]
    assert moving["averageMsgSize"] == moving["msgThroughputIn"] / moving["msgRateIn"]
    assert sub["consumers"][0]["messageAckRate"] == sub["messageAckRate"] > 0
    assert sub["msgRateOut"] == moving["msgRateOut"]
    idle = awaited(lambda: stats(broker, topic), lambda s: not s["msgRateIn"])
    again = awaited(lambda: stats(broker, topic), lambda s: not s["msgRateOut"])
    assert idle["publishers"][0]["msgRateIn"] == 0
    assert again["subscriptions"]["sub"]["msgRateOut"] == 0
    client.close()


@by_workers
def test_partitions_add_up(make_broker: MakeBroker, workers: str) -> None:
    broker = make_broker(magnetarWorkers=workers)
    admin, topic = Admin(broker), "persistent://public/default/parts"
    assert admin.put(f"{path_of(topic)}/partitions", 4).status == 204
    client = connect(broker.service_url)
    consumer = client.subscribe(topic, "sub", SHARED, consumer_name="you")
    producer = client.create_producer(
        topic, message_routing_mode=ROUND_ROBIN, batching_enabled=False
    )
    publish(producer, *map(str, range(40)))
    for message in take(consumer, 40)[:8]:
        consumer.acknowledge(message)

    def read() -> dict[str, Any]:
        return admin.get(f"{path_of(topic)}/partitioned-stats?perPartition=true").json  # type: ignore[no-any-return]

    found = awaited(read, lambda one: one["subscriptions"]["sub"]["msgBacklog"] == 32)
    parts = found["partitions"]
    assert found["metadata"] == {"partitions": 4, "deleted": False}
    assert sorted(parts) == [f"{topic}-partition-{n}" for n in range(4)]
    for name in ("msgInCounter", "bytesInCounter", "msgOutCounter", "storageSize", "backlogSize"):
        assert found[name] == sum(part[name] for part in parts.values()) > 0, name
    assert (found["msgInCounter"], found["msgOutCounter"]) == (40, 40)
    subs = [part["subscriptions"]["sub"] for part in parts.values()]
    for name in ("msgBacklog", "unackedMessages", "msgOutCounter"):
        assert found["subscriptions"]["sub"][name] == sum(one[name] for one in subs), name
    (you,) = found["subscriptions"]["sub"]["consumers"]
    assert (you["consumerName"], you["unackedMessages"]) == ("you", 32)
    assert found["lastPublishTimeStamp"] == max(p["lastPublishTimeStamp"] for p in parts.values())
    owners = {part["ownerBroker"] for part in parts.values()}
    assert owners <= set(admin.get("brokers").json)
    assert len(owners) == (1 if workers == "1" else 3)
    without = admin.get(f"{path_of(topic)}/partitioned-stats?perPartition=false").json
    assert without["partitions"] == {}
    assert without["msgInCounter"] == 40
    stored = admin.get(f"{path_of(topic)}/partitioned-internalStats").json["partitions"]
    assert sum(one["numberOfEntries"] for one in stored.values()) == 40
    everything = admin.get("broker-stats/topics").json["public/default"]
    listed = [t for bundle in everything.values() for t in bundle.get("persistent", {})]
    assert sorted(listed) == sorted(parts)
    load = admin.get("broker-stats/load-report").json
    assert (load["numTopics"], load["numConsumers"], load["numProducers"]) == (4, 4, 4)
    client.close()


def test_a_topic_that_is_not_persistent(broker: RunningBroker, client: pulsar.Client) -> None:
    topic = "non-persistent://public/default/gone"
    consumer = client.subscribe(topic, "sub", KEY_SHARED)
    producer = client.create_producer(topic)
    producer.send(b"one")
    take(consumer, 1)
    found = stats(broker, topic)
    sub = found["subscriptions"]["sub"]
    assert (found["msgInCounter"], sub["msgOutCounter"]) == (1, 1)
    assert (sub["isDurable"], sub["msgBacklog"], sub["msgDropRate"]) == (False, 0, 0)
    assert sub["consumers"][0]["keyHashRangeArrays"] == [[1, 65535]]
    consumer.close()
    producer.close()


# Why a subscription delivers nothing ---------------------------------------------------------


def why(broker: RunningBroker, topic: str, subscription: str = "sub") -> dict[str, Any]:
    answer = Admin(broker).get(f"{path_of(topic)}/subscription/{subscription}/whyNotDelivering")
    assert answer.status == 200, answer
    return answer.json  # type: ignore[no-any-return]


@by_workers
def test_the_reason_names_what_stops_a_subscription(make_broker: MakeBroker, workers: str) -> None:
    broker = make_broker(magnetarWorkers=workers, maxUnackedMessagesPerConsumer="4")
    topic, client = "persistent://public/default/why", connect(broker.service_url)
    consumer = client.subscribe(topic, "sub", SHARED, receiver_queue_size=100)
    assert why(broker, topic)["blocker"] == "caught_up"
    publish(client.create_producer(topic), *map(str, range(10)))
    take(consumer, 4)
    found = why(broker, topic)
    assert found["blocker"] == "unacked_consumer"
    assert "maxUnackedMessagesPerConsumer" in found["whatToDo"]
    assert found["limits"]["maxUnackedMessagesPerConsumer"] == 4
    assert (found["msgBacklog"], found["unackedMessages"]) == (10, 4)
    (one,) = found["consumers"]
    assert (one["blockedConsumerOnUnackedMsgs"], one["unackedMessages"]) == (True, 4)
    assert found["sinceTimestamp"] == one["lastConsumedTimestamp"] > 0
    consumer.close()
    gone = awaited(lambda: why(broker, topic), lambda one: one["blocker"] == "no_consumer")
    assert gone["sinceTimestamp"] >= found["sinceTimestamp"]
    stopped = client.subscribe(topic, "other", receiver_queue_size=1)
    publish(client.create_producer(topic), "x", "y", "z")
    awaited(lambda: why(broker, topic, "other"), lambda one: one["blocker"] == "no_permits")
    missing = Admin(broker).get(f"{path_of(topic)}/subscription/nobody/whyNotDelivering")
    assert missing.status == 404 and "nobody" in missing.reason
    stopped.close()
    client.close()


@by_workers
def test_draining_hashes_name_the_messages_that_hold_them(
    make_broker: MakeBroker, workers: str
) -> None:
    broker = make_broker(magnetarWorkers=workers)
    admin, topic = Admin(broker), "persistent://public/default/draining"
    base = f"{path_of(topic)}/subscription/sub"
    client = connect(broker.service_url)
    first = client.subscribe(topic, "sub", KEY_SHARED, consumer_name="first")
    producer = client.create_producer(topic, batching_enabled=False)
    keys = [f"key-{number}" for number in range(20)]
    for key in keys:
        producer.send(b"old", partition_key=key)
    held = take(first, 20)
    second = client.subscribe(topic, "sub", KEY_SHARED, consumer_name="second")
    hashes = {key: admin.get(f"{base}/keyHash?key={key}").json for key in keys}
    moved = {key: one for key, one in hashes.items() if one["consumer"]["consumerName"] == "second"}
    assert 0 < len(moved) < 20
    for key in keys:
        producer.send(b"new", partition_key=key)
    found = admin.get(f"{base}/drainingHashes").json
    assert {one["hash"] for one in found["drainingHashes"]} == {o["hash"] for o in moved.values()}
    ids = {id_ for one in found["drainingHashes"] for id_ in one["unackedMessageIds"]}
    waiting = {
        f"{m.message_id().ledger_id()}:{m.message_id().entry_id()}"
        for m in held
        if m.partition_key() in moved
    }
    assert ids == waiting
    assert all(one["holder"]["consumerName"] == "first" for one in found["drainingHashes"])
    assert all(one["owner"]["consumerName"] == "second" for one in found["drainingHashes"])
    counted = stats(broker, topic)["subscriptions"]["sub"]
    assert counted["drainingHashesCount"] == found["drainingHashesCount"] == len(ids)
    take(first, 20 - len(moved))
    assert why(broker, topic)["blocker"] == "draining_key"
    for message in held:
        first.acknowledge(message)
    take(second, len(moved))
    cleared = stats(broker, topic)["subscriptions"]["sub"]
    assert (cleared["drainingHashesCount"], cleared["drainingHashesClearedTotal"]) == (0, len(ids))
    ranges = [tuple(r) for one in cleared["consumers"] for r in one["keyHashRangeArrays"]]
    assert sorted(ranges)[0][0] == 1 and sorted(ranges)[-1][1] == 65535
    assert sum(last - first_ + 1 for first_, last in ranges) == 65535
    other = client.subscribe(topic, "plain")
    refused = admin.get(f"{path_of(topic)}/subscription/plain/drainingHashes")
    assert refused.status == 412 and "Key_Shared" in refused.reason
    assert admin.get(f"{base}/keyHash").status == 412
    other.close()
    client.close()


@either_way
def test_topics_know_when_they_were_created(make_broker: MakeBroker, again: Again) -> None:
    broker = make_broker()
    admin, path = Admin(broker), "persistent/public/default"
    before_ms = time.time_ns() // 1_000_000
    assert admin.put(f"{path}/plain").status == 204
    assert admin.put(f"{path}/parted/partitions", 3).status == 204
    by_use = connect(broker.service_url)
    by_use.create_producer("used")
    by_use.close()
    after_ms = time.time_ns() // 1_000_000

    def created() -> list[int]:
        paths = ("plain/stats", "used/stats", "parted/partitioned-stats")
        return [Admin(broker).get(f"{path}/{one}").json["topicCreationTimeStamp"] for one in paths]

    found = created()
    assert all(before_ms <= created_ms <= after_ms for created_ms in found)
    broker = again(broker)
    for name in ("plain", "parted"):
        client = connect(broker.service_url)
        publish(client.create_producer(f"persistent://public/default/{name}"), "first")
        client.close()
    assert created() == found
