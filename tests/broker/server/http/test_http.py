"""The HTTP port of a real daemon, as used by scripts, Prometheus and official clients."""

import http.client
import json
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import uuid4

import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar_broker.base.version import VERSION
from magnetar_proto.names import TopicName
from raw_client import RawClient
from running_broker import RunningBroker

TOPICS = "/admin/v2/persistent/public/default"
METADATA = "application/vnd.partitioned-topic-metadata+json"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        found = json.loads(self.body)
        assert self.headers["Content-Type"].startswith("application/json")
        assert set(found) == {"reason"}
        return str(found["reason"])


def ask(
    broker: RunningBroker, method: str, path: str, body: str | None = None, **headers: str
) -> Answer:
    """Send one request, with the path exactly as given."""
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def get(broker: RunningBroker, path: str) -> Answer:
    return ask(broker, "GET", path)


def put(broker: RunningBroker, path: str, body: object) -> Answer:
    return ask(broker, "PUT", path, json.dumps(body))


def fresh(word: str = "topic") -> str:
    """Return a local name that no other test uses."""
    return f"{word}-{uuid4().hex[:12]}"


def series(broker: RunningBroker, **labels: str) -> dict[str, float]:
    """Return the sums, over all processes, of the samples with all of these labels, by name."""
    page = get(broker, "/metrics")
    assert page.status == 200
    found: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(page.body.decode()):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                found[sample.name] += sample.value
    return found


# The broker's state ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"), [("health", "ok"), ("ready", "ok"), ("version", VERSION)]
)
def test_state_as_plain_text(broker: RunningBroker, path: str, text: str) -> None:
    answer = get(broker, f"/admin/v2/brokers/{path}")
    assert (answer.status, answer.body.decode()) == (200, text)
    assert answer.headers["Content-Type"].startswith("application/json")  # as clients expect


def test_a_lookup_answers_with_the_addresses_of_a_listener(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(
        advertisedListeners="in:pulsar://b1:6650,out:pulsar://b.example:16650,"
        "out:pulsar+ssl://b.example:16651,out:http://b.example:18080"
    )
    path = f"/lookup/v2/topic/persistent/public/default/{fresh()}"
    found = get(broker, f"{path}?listenerName=in").json
    assert isinstance(found, dict)
    assert (found["brokerUrl"], found["brokerUrlTls"]) == ("pulsar://b1:6650", "")
    assert found["httpUrl"] == f"http://b1:{broker.http_port}"
    unnamed = get(broker, path).json
    assert isinstance(unnamed, dict)
    assert unnamed["brokerUrl"] == "pulsar://b1:6650"
    assert unnamed["brokerUrlTls"] == "pulsar+ssl://b.example:16651"
    assert unnamed["httpUrl"] == "http://b.example:18080"
    by_query = get(broker, f"{path}?listenerName=out")
    assert ask(broker, "GET", path, **{"X-Pulsar-ListenerName": "out"}).json == by_query.json
    assert by_query.json == {
        "brokerUrl": "pulsar://b.example:16650",
        "brokerUrlTls": "pulsar+ssl://b.example:16651",
        "brokerUrlSsl": "",
        "httpUrl": "http://b.example:18080",
        "httpUrlTls": "",
        "nativeUrl": "pulsar://b.example:16650",
    }
    unknown = get(broker, f"{path}?listenerName=elsewhere")
    assert unknown.status == 404
    assert "elsewhere listener" in unknown.reason and "in, out" in unknown.reason


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_prometheus_reads_either_path(broker: RunningBroker, path: str) -> None:
    answer = get(broker, path)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {"pulsar_version_info", "pulsar_broker_topics_count", "process_cpu_seconds"} <= names


def test_the_journal_is_measured(broker: RunningBroker) -> None:
    assert put(broker, f"{TOPICS}/{fresh()}/partitions", 1).status == 204
    client = pulsar.Client(broker.service_url)
    try:
        before = series(broker, cluster="standalone")
        client.create_producer(fresh()).send(b"x" * 1000)
        after = series(broker, cluster="standalone")
    finally:
        client.close()
    for name in ("round_records_count", "fsync_seconds_count", "fsync_seconds_sum"):
        assert after[f"magnetar_journal_{name}"] > before[f"magnetar_journal_{name}"]
    grown = after["magnetar_journal_bytes_total"] - before["magnetar_journal_bytes_total"]
    assert grown >= 1000


def test_garbage_is_looked_for_once_the_broker_is_ready(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(magnetarWorkers="1")  # one process keeps all of it

    def rounds() -> float:
        first = series(broker, cluster="standalone", generation="0")
        return first["python_gc_collections_total"]

    before = rounds()
    with ExitStack() as clients:
        for _ in range(400):  # the broker keeps some dozens of objects for each of them
            clients.enter_context(RawClient(broker.port))
        assert rounds() > before


def test_what_is_not_served_is_answered_404(broker: RunningBroker) -> None:
    assert get(broker, "/admin/v2/nothing").status == 404
    assert "/admin/v2/nothing" in get(broker, "/admin/v2/nothing").reason
    wrong = ask(broker, "POST", "/metrics")
    assert wrong.status == 405
    assert "GET" in wrong.headers["Allow"]


# Partitioned topics -----------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", "3"),
        (METADATA, '{"partitions": 3}'),
        (METADATA, '{"partitions": 3, "properties": {}}'),
    ],
)
def test_create_once(broker: RunningBroker, domain: str, content_type: str, body: str) -> None:
    path = f"/admin/v2/{domain}/public/default/{fresh()}/partitions"
    headers = {"Content-Type": content_type}
    created = ask(broker, "PUT", path, body, **headers)
    assert (created.status, created.body) == (204, b"")
    assert get(broker, path).json == {"partitions": 3, "deleted": False}
    again = ask(broker, "PUT", path, body, **headers)
    assert again.status == 409
    assert "already" in again.reason


def test_partitions_survive_a_kill(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    assert put(broker, f"{TOPICS}/kept/partitions", 5).status == 204
    broker.kill()
    broker.start()
    assert get(broker, f"{TOPICS}/kept/partitions").json == {"partitions": 5, "deleted": False}


@pytest.mark.parametrize("count", [0, -1, 10_001, 2**40])
def test_a_number_of_partitions_that_cannot_be(broker: RunningBroker, count: int) -> None:
    answer = put(broker, f"{TOPICS}/{fresh()}/partitions", count)
    assert answer.status == 406
    assert str(count) in answer.reason


def test_the_configured_limit_of_partitions(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(maxNumPartitionsPerPartitionedTopic="4")
    assert put(broker, f"{TOPICS}/five/partitions", 5).status == 406
    assert put(broker, f"{TOPICS}/four/partitions", 4).status == 204


@pytest.mark.parametrize(
    "body",
    [
        "", "three", "true", "3.5", '"three"', "[3]", "{}", '{"partitions": null}', "[" * 60_000,
        '{"partitions": 3, "properties": {"a": 1}}', "9" * 5000,
    ],
)  # fmt: skip
def test_a_body_that_is_no_number(broker: RunningBroker, body: str) -> None:
    path = f"{TOPICS}/{fresh()}/partitions"
    answer = ask(broker, "PUT", path, body)
    assert answer.status == 400
    assert answer.reason
    assert get(broker, path).status == 404


def test_a_body_beyond_the_limit(broker: RunningBroker) -> None:
    answer = ask(broker, "PUT", f"{TOPICS}/{fresh()}/partitions", " " * (2 << 20) + "3")
    assert answer.status == 413
    assert answer.reason


@pytest.mark.parametrize("name", ["%FF", "%zz", "a%", "%2"])
def test_broken_percent_encoding(broker: RunningBroker, name: str) -> None:
    answer = put(broker, f"{TOPICS}/{name}/partitions", 3)
    assert (answer.status, "hex digits" in answer.reason) == (400, True)


@pytest.mark.parametrize(
    "path",
    [
        f"{TOPICS}/a%2Fb/partitions",
        f"{TOPICS}/%20/partitions",
        "/admin/v2/persistent/pub%20lic/default/topic/partitions",
    ],
)
def test_a_name_that_cannot_be(broker: RunningBroker, path: str) -> None:
    assert put(broker, path, 3).status == 412
    answer = get(broker, path)
    assert answer.status == 412
    assert answer.reason


def test_a_partition_has_no_partitions(broker: RunningBroker) -> None:
    answer = put(broker, f"{TOPICS}/{fresh()}-partition-1/partitions", 3)
    assert answer.status == 412
    assert "partition" in answer.reason


def test_a_missing_topic_is_missing_unless_it_would_be_created(broker: RunningBroker) -> None:
    path = f"{TOPICS}/{fresh()}/partitions"
    assert get(broker, path).status == 404
    assert "does not exist" in get(broker, path).reason
    asked = get(broker, f"{path}?checkAllowAutoCreation=true")
    assert (asked.status, asked.json) == (200, {"partitions": 0, "deleted": False})


def test_a_topic_in_use_cannot_become_partitioned(broker: RunningBroker) -> None:
    local = fresh()
    client = pulsar.Client(broker.service_url)
    try:
        client.create_producer(local)
        path = f"{TOPICS}/{local}/partitions"
        assert get(broker, path).json == {"partitions": 0, "deleted": False}
        assert put(broker, path, 3).status == 409
    finally:
        client.close()


# Listings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("local", ["a b", "a+b", "a%2Bb", "a%2Fb%25", "Größe", "q?x=1#y", "~*"])
def test_names_are_decoded_exactly_once(broker: RunningBroker, local: str) -> None:
    namespace = f"names/{fresh('ns')}"
    topic = TopicName.parse(f"persistent://{namespace}/{local}")
    path = f"/admin/v2/persistent/{namespace}/{topic.encoded_local}/partitions"
    assert put(broker, path, 1).status == 404
    tenant = {"allowedClusters": ["standalone"]}
    assert put(broker, "/admin/v2/tenants/names", tenant).status in (204, 409)
    assert put(broker, f"/admin/v2/namespaces/{namespace}", {}).status == 204
    assert put(broker, path, 1).status == 204
    listed = get(broker, f"/admin/v2/persistent/{namespace}")
    assert listed.json == [f"persistent://{namespace}/{local}-partition-0"]


def test_topics_by_domain_and_by_mode(broker: RunningBroker) -> None:
    namespace = f"lists/{fresh('ns')}"
    stored, volatile = f"persistent://{namespace}/s", f"non-persistent://{namespace}/v"
    client = pulsar.Client(broker.service_url)
    try:
        client.create_producer(stored)
        client.create_producer(volatile)
        expected = {
            f"persistent/{namespace}": [stored],
            f"non-persistent/{namespace}": [volatile],
            f"namespaces/{namespace}/topics": [stored],
            f"namespaces/{namespace}/topics?mode=PERSISTENT": [stored],
            f"namespaces/{namespace}/topics?mode=NON_PERSISTENT": [volatile],
            f"namespaces/{namespace}/topics?mode=ALL": [volatile, stored],
        }
        for path, names in expected.items():
            assert get(broker, f"/admin/v2/{path}").json == names, path
        assert get(broker, f"/admin/v2/namespaces/{namespace}/topics?mode=SOME").status == 404
    finally:
        client.close()


@pytest.mark.parametrize("path", ["persistent/no/such", "namespaces/no/such/topics"])
def test_a_listing_creates_no_namespace(broker: RunningBroker, path: str) -> None:
    for _ in range(2):
        answer = get(broker, f"/admin/v2/{path}")
        assert answer.status == 404
        assert "no/such" in answer.reason


# Lookups and official clients ---------------------------------------------------------------


def test_lookup(broker: RunningBroker) -> None:
    answer = get(broker, f"/lookup/v2/topic/persistent/public/default/{fresh()}")
    assert answer.status == 200
    assert answer.json == {
        "brokerUrl": broker.service_url,
        "brokerUrlTls": "",
        "brokerUrlSsl": "",
        "httpUrl": broker.http_url,
        "httpUrlTls": "",
        "nativeUrl": broker.service_url,
    }


def test_without_creation_only_what_exists_is_found(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(allowAutoTopicCreation="false")
    assert put(broker, f"{TOPICS}/there/partitions", 2).status == 204
    statuses = {
        local: get(broker, f"/lookup/v2/topic/persistent/public/default/{local}").status
        for local in ("there", "there-partition-1", "there-partition-2", "absent")
    }
    assert statuses == {
        "there": 200, "there-partition-1": 200, "there-partition-2": 404, "absent": 404,
    }  # fmt: skip
    missing = get(broker, f"{TOPICS}/absent/partitions?checkAllowAutoCreation=true")
    assert missing.status == 404


def test_an_official_client_works_through_http(broker: RunningBroker) -> None:
    local = fresh()
    topic = f"persistent://public/default/{local}"
    assert put(broker, f"{TOPICS}/{local}/partitions", 2).status == 204
    client = pulsar.Client(broker.http_url)
    try:
        assert client.get_topic_partitions(topic) == [f"{topic}-partition-{p}" for p in range(2)]
        consumer = client.subscribe(topic, "sub")
        producer = client.create_producer(topic)
        sent = {f"message {number}".encode() for number in range(20)}
        for payload in sent:
            producer.send(payload)
        assert {consumer.receive(60_000).data() for _ in sent} == sent
    finally:
        client.close()


def test_an_official_client_finds_topics_by_pattern_through_http(broker: RunningBroker) -> None:
    namespace = f"patterns/{fresh('ns')}"
    client = pulsar.Client(broker.http_url)
    try:
        producer = client.create_producer(f"persistent://{namespace}/wanted-1")
        client.create_producer(f"persistent://{namespace}/other")
        consumer = client.subscribe(re.compile(f"persistent://{namespace}/wanted-.*"), "sub")
        producer.send(b"found")
        assert consumer.receive(60_000).topic_name() == f"persistent://{namespace}/wanted-1"
    finally:
        client.close()


def test_a_topic_and_its_subscriptions_are_measured(broker: RunningBroker) -> None:
    topic = f"persistent://public/default/{fresh()}"
    client = pulsar.Client(broker.service_url)
    try:
        consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        for _ in range(10):
            producer.send_async(b"x" * 50, lambda *_: None)
        producer.flush()
        for _ in range(10):
            consumer.receive(60_000)
        found = series(broker, namespace="public/default", topic=topic)
    finally:
        client.close()
    expected = {
        "pulsar_in_messages_total": 10,
        "pulsar_out_messages_total": 10,
        "pulsar_msg_backlog": 10,
        "pulsar_subscription_back_log": 10,
        "pulsar_subscription_unacked_messages": 10,
        "pulsar_subscription_in_replay": 0,
        "pulsar_subscription_consumers_count": 1,
        "pulsar_subscriptions_count": 1,
        "pulsar_producers_count": 1,
        "pulsar_consumers_count": 1,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found["pulsar_in_bytes_total"] >= 500
    assert found["pulsar_out_bytes_total"] == found["pulsar_in_bytes_total"]
    assert found["pulsar_storage_size"] == found["pulsar_in_bytes_total"]


def test_metrics_of_namespaces_only(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(exposeTopicLevelMetricsInPrometheus="false")
    client = pulsar.Client(broker.service_url)
    try:
        for local in ("one", "two"):
            client.subscribe(local, "sub")
            client.create_producer(local).send(b"payload")
        found = series(broker, namespace="public/default")
        page = get(broker, "/metrics").body.decode()
    finally:
        client.close()
    assert found["pulsar_in_messages_total"] == 2
    assert found["pulsar_msg_backlog"] == 2
    assert found["pulsar_topics_count"] == 2
    assert "topic=" not in page
    assert "subscription=" not in page
