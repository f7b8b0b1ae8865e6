"""The real daemon offloads ledgers to a server of S3, and the official client reads them."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import uuid4

import pulsar
import pytest

import object_servers
from admin_command import answered, done
from admin_http import Admin
from broker.server.object_stores.scripted import SECRET_IN_ANSWER, Answer, scripted
from compacting import compact
from fakes.waiting import await_true
from magnetar.sync import connect as connect_sync
from official import batching, connect, publish_batch, take, texts
from running_broker import RunningBroker
from tiered_broker import (
    LEDGER_ENTRIES,
    at_once,
    await_moved,
    backlog,
    files_of,
    ledgers_of,
    objects_in,
    objects_of,
    offload_status,
    on_request,
    path_of,
    publish,
    read_all,
)

Make = Callable[..., RunningBroker]

EARLIEST = pulsar.InitialPosition.Earliest
FEW = [f"m{number}" for number in range(4 * LEDGER_ENTRIES + 20)]
TYPES = [
    pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared, pulsar.ConsumerType.Failover,
]  # fmt: skip
SECRET = "a-secret-that-appears-nowhere"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_servers.moto() as endpoint:
        yield endpoint


@pytest.fixture(scope="module", params=[1, 3])
def tiered(
    endpoint: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """A broker that offloads at once, with one and with three workers."""
    settings = at_once(endpoint, f"of-{request.param}-workers") | {
        "magnetarWorkers": str(request.param),
        "transactionCoordinatorEnabled": "true",
        "systemTopicEnabled": "true",
    }
    broker = RunningBroker(tmp_path_factory.mktemp("tiered") / "data", **settings).start()
    yield broker
    broker.close()


@pytest.fixture
def prefix(tiered: RunningBroker) -> str:
    return tiered.settings["s3ManagedLedgerOffloadBucket"].partition("/")[2]


@pytest.fixture
def client(tiered: RunningBroker) -> Iterator[pulsar.Client]:
    client = connect(tiered.service_url)
    yield client
    client.close()


@pytest.fixture
def topic() -> str:
    return f"persistent://public/default/{uuid4().hex}"


def test_everything_is_read_from_the_beginning_in_order(
    tiered: RunningBroker, client: pulsar.Client, endpoint: str, prefix: str, topic: str
) -> None:
    publish(client, topic, FEW)
    moved = await_moved(tiered, topic)
    assert len(moved) > 2 and len(objects_of(endpoint, prefix, moved)) == len(moved)
    assert read_all(client, topic) == FEW
    stats = Admin(tiered).get(f"{path_of(topic)}/stats").json
    assert stats["offloadedStorageSize"] > 0
    assert stats["lastOffloadLedgerId"] == moved[-1]
    await_true(
        lambda: any(
            line.startswith("brk_ledgeroffloader_read_bytes") and float(line.split()[-1]) > 0
            for line in tiered.metrics.splitlines()
        ),
        "the metrics count what was read",
    )


def test_everything_is_read_again_after_kill_9(
    tiered: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    publish(client, topic, FEW)
    moved = await_moved(tiered, topic)
    tiered.kill()
    tiered.start()
    assert read_all(client, topic) == FEW
    assert not files_of(tiered, moved)
    publish(client, topic, ["more"])
    assert read_all(client, topic) == [*FEW, "more"]


@pytest.mark.parametrize("sub_type", TYPES)
def test_individual_acknowledgements_across_offloaded_ledgers(
    tiered: RunningBroker, client: pulsar.Client, topic: str, sub_type: pulsar.ConsumerType
) -> None:
    client.subscribe(topic, "sub", sub_type).close()
    publish(client, topic, FEW)
    await_moved(tiered, topic)
    consumer = client.subscribe(topic, "sub", sub_type)
    received = take(consumer, len(FEW))
    assert sorted(texts(received)) == sorted(FEW)
    for message in received:
        if int(message.data().decode()[1:]) % 3:
            consumer.acknowledge(message)
    left = [text for text in FEW if not int(text[1:]) % 3]
    consumer.close()
    await_true(lambda: backlog(tiered, topic, "sub") == len(left), "the backlog is exact")
    assert Admin(tiered).put(f"{path_of(topic)}/unload").status == 204
    consumer = client.subscribe(topic, "sub", sub_type)
    again = take(consumer, len(left))
    assert sorted(texts(again)) == sorted(left)
    for message in again:
        consumer.acknowledge(message)
    await_true(lambda: backlog(tiered, topic, "sub") == 0, "nothing is left")
    consumer.close()


def test_delayed_messages_of_offloaded_ledgers_come_when_they_are_due(
    tiered: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    due_ms = int(time.time() * 1000) + 4000
    for text in FEW:
        producer.send_async(text.encode(), lambda *_: None, deliver_at=due_ms)
    producer.send(b"far", deliver_after=timedelta(days=30))
    producer.send(b"now")
    await_moved(tiered, topic)
    assert sorted(texts(take(consumer, len(FEW) + 1))) == sorted([*FEW, "now"])
    assert time.time() * 1000 >= due_ms
    consumer.close()


def test_compaction_of_offloaded_ledgers(
    tiered: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    for number in range(len(FEW)):
        producer.send(f"v{number}".encode(), partition_key=f"k{number % 7}")
    await_moved(tiered, topic)
    compact(tiered, topic)
    wanted = [f"v{number}" for number in range(len(FEW) - 7, len(FEW))]
    assert read_all(client, topic, is_read_compacted=True) == wanted
    assert len(read_all(client, topic)) == len(FEW)


def test_transactions_on_a_topic_of_offloaded_ledgers(tiered: RunningBroker, topic: str) -> None:
    """Entries of aborted transactions are not delivered, wherever they are."""
    wanted = []
    with connect_sync(tiered.service_url) as client:
        producer = client.producer(topic)
        for round_ in range(2 * LEDGER_ENTRIES):
            is_kept = round_ % 2 == 0
            with client.transaction() as txn:
                for part in range(2):
                    text = f"{round_}-{part}"
                    producer.send(text.encode(), txn=txn)
                    wanted += [text] if is_kept else []
                if not is_kept:
                    txn.abort()
    await_moved(tiered, topic)
    assert Admin(tiered).put(f"{path_of(topic)}/unload").status == 204
    official = connect(tiered.service_url)
    consumer = official.subscribe(topic, "sub", initial_position=EARLIEST)
    assert texts(take(consumer, len(wanted))) == wanted
    official.close()


def test_batches_are_counted_exactly(
    tiered: RunningBroker, client: pulsar.Client, topic: str
) -> None:
    client.subscribe(topic, "sub", pulsar.ConsumerType.Shared).close()
    producer, sent = batching(client, topic), []
    for number in range(2 * LEDGER_ENTRIES + 7):
        batch = [f"{number}-{part}" for part in range(number % 4 + 1)]
        publish_batch(producer, *batch)
        sent += batch
    await_moved(tiered, topic)
    assert backlog(tiered, topic, "sub") == len(sent)
    consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    for message in take(consumer, len(sent) - 3):
        consumer.acknowledge(message)
    consumer.close()
    await_true(lambda: backlog(tiered, topic, "sub") <= 4, "only the last batch is left")
    assert read_all(client, topic) == sent


def test_no_object_is_left_of_a_deleted_topic(
    tiered: RunningBroker, client: pulsar.Client, endpoint: str, prefix: str, topic: str
) -> None:
    publish(client, topic, FEW)
    moved = await_moved(tiered, topic)
    assert objects_of(endpoint, prefix, moved)
    assert Admin(tiered).delete(path_of(topic)).status == 204
    assert not objects_of(endpoint, prefix, moved)


def test_objects_of_trimmed_ledgers_are_deleted(
    tiered: RunningBroker, client: pulsar.Client, endpoint: str, prefix: str, topic: str
) -> None:
    publish(client, topic, FEW)
    moved = await_moved(tiered, topic)
    none = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
    assert Admin(tiered).post(f"{path_of(topic)}/retention", none).status == 204
    await_true(
        lambda: not objects_of(endpoint, prefix, moved), "the objects of trimmed ledgers are gone"
    )
    assert len(ledgers_of(tiered, topic)) == 1


def test_offloading_on_request(make_broker: Make, endpoint: str, topic: str) -> None:
    """REST and the command start it; both show how it ended."""
    broker = make_broker(**on_request(endpoint, "on-request"))
    client = connect(broker.service_url)
    publish(client, topic, FEW)
    ledgers = [one["ledgerId"] for one in ledgers_of(broker, topic)]
    assert offload_status(broker, topic)["status"] == "NOT_RUN"
    assert not objects_in(endpoint, "on-request")
    body = {"ledgerId": ledgers[2], "entryId": 0}
    assert Admin(broker).put(f"{path_of(topic)}/offload", body).status == 204
    status = offload_status(broker, topic)
    assert status["status"] == "SUCCESS", status
    assert status["firstUnoffloadedMessage"]["ledgerId"] == ledgers[2]
    offloaded = [one["offloaded"] for one in ledgers_of(broker, topic)]
    assert offloaded == [True, True] + [False] * (len(ledgers) - 2)
    done(broker, "topics", "offload", "-s", "0", topic)
    done(broker, "topics", "offload-status", "--wait-complete", topic)
    assert answered(broker, "topics", "offload-status", topic)["status"] == "SUCCESS"
    await_moved(broker, topic)
    assert read_all(client, topic) == FEW
    client.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(403, "InvalidAccessKeyId"), "access was denied (403 InvalidAccessKeyId)"),
        (Answer(403, "SignatureDoesNotMatch"), "access was denied (403 SignatureDoesNotMatch)"),
        (Answer(404, "NoSuchBucket"), "the bucket does not exist"),
    ],
)
def test_a_store_that_refuses(make_broker: Make, topic: str, answer: Answer, why: str) -> None:
    """Publishing goes on; status and log say why nothing is offloaded, without any secret."""
    with scripted() as script:
        script.otherwise = answer
        broker = make_broker(**at_once(script.endpoint, "refused", SECRET))
        client, admin = connect(broker.service_url), Admin(broker)
        publish(client, topic, FEW)
        await_true(lambda: why in broker.log, "the log says why")
        body = {"ledgerId": ledgers_of(broker, topic)[-1]["ledgerId"], "entryId": 0}
        assert admin.put(f"{path_of(topic)}/offload", body).status == 204
        status = offload_status(broker, topic)
        assert status["status"] == "ERROR" and why in status["lastError"], status
        publish(client, topic, FEW)
        assert read_all(client, topic) == FEW * 2
        assert admin.get("brokers/health").body == b"ok"
        shown = [
            broker.log, broker.banner, broker.metrics, str(status),
            *(
                admin.get(path).body.decode()
                for path in (
                    f"{path_of(topic)}/stats", f"{path_of(topic)}/internalStats",
                    "brokers/configuration/runtime", "brokers/configuration/explain",
                    "brokers/configuration/values", f"{path_of(topic)}/policies/explain",
                )
            ),
        ]  # fmt: skip
        client.close()
        deleted = admin.delete(path_of(topic))
        assert deleted.status == 204, deleted.body
        assert "cannot be deleted now" in broker.log
        shown += [str(deleted.body), broker.log]
        for text in shown:
            assert SECRET not in text and SECRET_IN_ANSWER not in text
        assert "Traceback" not in broker.log
