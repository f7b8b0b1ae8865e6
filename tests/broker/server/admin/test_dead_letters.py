"""Searching topics, and dead letters: listed, searched, and published again to their topic."""

from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import pulsar
import pytest

from admin_http import Admin
from official import batching, connect, publish_batch, take
from running_broker import RunningBroker


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[pulsar.Client]:
    client = connect(broker.service_url)
    yield client
    client.close()


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def payloads(answer: Any) -> list[str]:
    return [b64decode(one["payload"]).decode() for one in answer.json["messages"]]


def failing(client: pulsar.Client, topic: str, count: int, **options: object) -> None:
    """Publish messages that a consumer of `sub` rejects until they are dead letters."""
    policy = pulsar.ConsumerDeadLetterPolicy(
        max_redeliver_count=1, initial_subscription_name="kept"
    )
    consumer = client.subscribe(
        topic,
        "sub",
        consumer_type=pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=policy,
    )
    producer = client.create_producer(topic, batching_enabled=False, **options)
    for number in range(count):
        properties = {"number": str(number), "even": str(number % 2 == 0)}
        producer.send(f"m{number}".encode(), properties=properties, partition_key=f"k{number % 3}")
    for _ in range(2 * count):
        (message,) = take(consumer, 1)
        consumer.negative_acknowledge(message)
    earliest = pulsar.InitialPosition.Earliest
    dead = client.subscribe(f"{topic}-sub-DLQ", "watch", initial_position=earliest)
    take(dead, count)
    dead.close()
    consumer.close()
    producer.close()


def test_a_topic_is_searched_by_key_and_property(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(6):
        producer.send(
            f"m{number}".encode(), properties={"n": str(number % 2)}, partition_key=f"k{number % 3}"
        )
    publish_batch(batching(client, topic), "b0", "b1", "b2")
    path = f"{path_of(topic)}/search"
    assert payloads(admin.get(path)) == ["m0", "m1", "m2", "m3", "m4", "m5", "b0", "b1", "b2"]
    assert payloads(admin.get(f"{path}?key=k1")) == ["m1", "m4"]
    assert payloads(admin.get(f"{path}?property=n=1")) == ["m1", "m3", "m5"]
    assert payloads(admin.get(f"{path}?property=n&key=k0")) == ["m0", "m3"]
    assert payloads(admin.get(f"{path}?property=other")) == []
    first = admin.get(f"{path}?limit=2").json
    assert first["next"] and [one["key"] for one in first["messages"]] == ["k0", "k1"]
    rest = admin.get(f"{path}?limit=100&from={first['next']}")
    assert payloads(rest)[:2] == ["m2", "m3"] and rest.json["next"] is None
    bounded = admin.get(f"{path}?scan=3&property=n=1").json
    assert (bounded["entriesScanned"], len(bounded["messages"])) == (3, 1)
    assert payloads(admin.get(f"{path}?from={bounded['next']}&property=n=1")) == ["m3", "m5"]
    shown = admin.get(f"{path}?payload=1&limit=1").json["messages"][0]
    assert (b64decode(shown["payload"]), shown["size"]) == (b"m", 2)
    batch = admin.get(f"{path}?limit=1&from={rest.json['messages'][-1]['id'].rpartition(':')[0]}")
    assert payloads(batch) == ["b0"]  # a batch is found one by one
    assert batch.json["next"] == rest.json["messages"][-2]["id"]
    last = admin.get(f"{path}?from={batch.json['next']}")
    assert payloads(last) == ["b1", "b2"] and last.json["next"] is None
    huge = "9" * 5000
    for bad in (
        f"from={huge}:0",
        "from=x",
        "from=1",
        "from=1:2:3:4",
        "from=1:-1",
        "limit=x",
        "limit=0",
        "limit=1001",
        "scan=0",
        "payload=-1",
    ):
        assert admin.get(f"{path}?{bad}").status in (400, 412), bad


def test_dead_letters_are_listed_searched_and_published_again(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    failing(client, topic, 6)
    path = f"{path_of(topic)}/subscription/sub/deadLetters"
    (listed,) = admin.get(path).json
    assert (listed["topic"], listed["kind"], listed["messages"]) == (f"{topic}-sub-DLQ", "DLQ", 6)
    assert sorted(payloads(admin.get(f"{path}/messages"))) == [f"m{n}" for n in range(6)]
    found = admin.get(f"{path}/messages?property=number=4").json["messages"]
    assert [one["key"] for one in found] == ["k1"]

    again = client.subscribe(topic, "again")
    dry = admin.post(f"{path}/replay", {"property": "even=True", "dryRun": True}).json
    assert (dry["matched"], dry["replayed"], dry["dryRun"]) == (3, 0, True)
    answer = admin.post(f"{path}/replay", {"property": "even=True", "rate": 1000})
    done = answer.json
    assert answer.status == 200
    assert (done["matched"], done["replayed"], done["next"]) == (3, 3, None)
    got = take(again, 3)
    assert sorted(one.data().decode() for one in got) == ["m0", "m2", "m4"]
    for message in got:
        assert message.partition_key() == f"k{int(message.properties()['number']) % 3}"
        assert "REAL_TOPIC" not in message.properties()
        source = message.properties()["REPLAYED_FROM"]
        assert source.startswith(f"{topic}-sub-DLQ:")
    again.close()
    assert admin.get(path).json[0]["messages"] == 6  # they stay where they are

    one = admin.post(f"{path}/replay", {"limit": 1}).json
    assert one["replayed"] == 1 and one["next"]
    rest = admin.post(f"{path}/replay", {"from": one["next"]}).json
    assert (rest["replayed"], rest["next"]) == (5, None)


def test_a_replay_that_cannot_be_done_is_refused(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    path = f"{path_of(topic)}/subscription/sub/deadLetters"
    assert admin.get(path).status == 404
    client.create_producer(topic).close()
    assert admin.get(path).json == []
    assert admin.get(f"{path}/messages").status == admin.post(f"{path}/replay").status == 404
    failing(client, topic, 2)
    assert admin.get(f"{path}/messages?kind=OTHER").status == 412
    assert admin.get(f"{path}/messages?kind=RETRY").status == 404
    slow = admin.post(f"{path}/replay", {"limit": 1000, "rate": 1})
    assert slow.status == 412 and "more than 60 s" in slow.reason
    wrong: tuple[object, ...] = (
        [1], {"limit": "x"}, {"key": 5}, {"from": "x"}, {"rate": 0}, {"limit": True},
    )  # fmt: skip
    for bad in wrong:
        assert admin.post(f"{path}/replay", bad).status in (400, 412), bad
    assert admin.post(f"{path_of(topic)}/terminate").status == 200
    refused = admin.post(f"{path}/replay")
    assert refused.status == 412 and "takes no messages" in refused.reason


def test_dead_letters_go_back_to_the_partition_that_they_came_from(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    assert admin.put(f"{path_of(topic)}/partitions", 3).status == 204
    name = f"{topic}-sub-DLQ"
    dead = client.create_producer(name, batching_enabled=False)
    for partition in range(3):
        real = f"{topic}-partition-{partition}"
        dead.send(b"m%d" % partition, properties={"REAL_TOPIC": real, "ORIGIN_MESSAGE_ID": "1:1"})
    dead.send(b"keyed", partition_key="k", properties={"REAL_TOPIC": "persistent://else/where/t"})
    readers = [
        client.create_reader(f"{topic}-partition-{n}", pulsar.MessageId.earliest) for n in range(3)
    ]
    path = f"{path_of(topic)}/subscription/sub/deadLetters"
    assert admin.post(f"{path}/replay").json["replayed"] == 4
    got = {n: readers[n].read_next().data() for n in range(3)}
    assert got == {n: b"m%d" % n for n in range(3)}


@pytest.mark.parametrize("workers", ["1", "3"])
def test_schemas_batches_and_workers(
    make_broker: Callable[..., RunningBroker], workers: str
) -> None:
    broker = make_broker(magnetarWorkers=workers)
    admin, client = Admin(broker), connect(broker.service_url)
    topic = "persistent://public/default/orders"
    text = pulsar.schema.StringSchema()
    client.create_producer(topic, schema=pulsar.schema.BytesSchema()).close()
    dead = client.create_producer(f"{topic}-sub-DLQ", schema=text)
    for number in range(5):
        dead.send_async(f"m{number}", lambda *_: None, properties={"n": str(number)})
    dead.flush()
    consumer = client.subscribe(topic, "all")
    path = f"{path_of(topic)}/subscription/sub/deadLetters"
    done = admin.post(f"{path}/replay", {"property": "n=3"}).json
    assert done["replayed"] == 1
    assert [one.data() for one in take(consumer, 1)] == [b"m3"]
    assert admin.post(f"{path}/replay").json["replayed"] == 5
    assert [one.data() for one in take(consumer, 5)] == [b"m%d" % n for n in range(5)]
    client.close()


def test_a_replay_publishes_no_more_of_a_batch_than_its_limit(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "all")
    names = [f"m{number}" for number in range(5)]
    publish_batch(batching(client, f"{topic}-sub-DLQ"), *names)
    path = f"{path_of(topic)}/subscription/sub/deadLetters/replay"
    start: dict[str, object] = {}
    for expected in (["m0", "m1"], ["m2", "m3"], ["m4"]):
        done = admin.post(path, {"limit": 2, **start}).json
        assert (done["matched"], done["replayed"]) == (len(expected), len(expected))
        assert [one.data().decode() for one in take(consumer, len(expected))] == expected
        start = {"from": done["next"]}
    assert start["from"] is None


def test_a_dead_letter_topic_can_have_a_name_of_its_own(
    admin: Admin, client: pulsar.Client, topic: str
) -> None:
    client.create_producer(f"{topic}-grave", batching_enabled=False).send(b"dead")
    consumer = client.subscribe(topic, "all")
    path = f"{path_of(topic)}/subscription/sub/deadLetters/replay"
    local = topic.rpartition("/")[2]
    assert admin.post(path, {"topic": f"{local}-grave"}).json["replayed"] == 1
    assert admin.post(path, {"topic": f"{topic}-grave"}).json["replayed"] == 1
    assert [one.data() for one in take(consumer, 2)] == [b"dead"] * 2
    assert admin.post(path, {"topic": f"{local}-absent"}).status == 404
    for wrong in (local, "persistent://else/where/t", f"non-{topic}-grave"):
        assert admin.post(path, {"topic": wrong}).status == 412
    assert admin.post(path, {"topic": 5}).status == 400


def test_retry_topics_are_found_too(admin: Admin, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic).close()
    client.create_producer(f"{topic}-sub-RETRY", batching_enabled=False).send(b"again")
    path = f"{path_of(topic)}/subscription/sub/deadLetters"
    assert [one["kind"] for one in admin.get(path).json] == ["RETRY"]
    assert payloads(admin.get(f"{path}/messages?kind=RETRY")) == ["again"]
    assert admin.post(f"{path}/replay", {"kind": "RETRY"}).json["replayed"] == 1
