"""Tenants, namespaces, topics and subscriptions over HTTP, beyond the recorded traces."""

from collections.abc import Callable
from itertools import chain, pairwise
from urllib.parse import quote, quote_plus
from uuid import uuid4

import pytest

from admin_http import Admin
from raw_client import RawClient, id_of
from running_broker import RunningBroker


@pytest.fixture
def admin(broker: RunningBroker) -> Admin:
    return Admin(broker)


@pytest.fixture
def namespace(admin: Admin) -> str:
    """Create a namespace that no other test uses."""
    name = f"names/{uuid4().hex}"
    admin.makes_namespace(name)
    return name


def test_force_needs_a_setting(admin: Admin, namespace: str) -> None:
    assert admin.put(f"persistent/{namespace}/topic").status == 204
    refused = admin.delete(f"namespaces/{namespace}?force=true")
    assert refused.status == 405 and "forceDeleteNamespaceAllowed" in refused.reason
    refused = admin.delete("tenants/names?force=true")
    assert refused.status == 405 and "forceDeleteTenantAllowed" in refused.reason
    assert admin.get(f"persistent/{namespace}").json == [f"persistent://{namespace}/topic"]


def test_names_survive_a_kill(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker()
    admin, path = Admin(broker), "persistent/tenant/space"
    bundles = {"boundaries": ["0x00000000", "0x10000000", "0xffffffff"]}
    admin.makes_namespace("tenant/space", {"bundles": bundles, "properties": {"a": "b"}})
    assert admin.put(f"{path}/plain", {"colour": "green"}).status == 204
    body = {"partitions": 2, "properties": {"size": "large"}}
    assert admin.put(f"{path}/parted/partitions", body).status == 204
    asked = (
        "tenants/tenant",
        "namespaces/tenant/space",
        f"{path}/plain/properties",
        f"{path}/parted/partitions",
        path,
        f"{path}/partitioned",
    )
    before = [admin.get(one).json for one in asked]
    broker.kill()
    broker.start()
    assert [admin.get(one).json for one in asked] == before
    assert before[1]["bundles"]["boundaries"] == bundles["boundaries"]
    assert before[2] == {"colour": "green"} and before[3]["properties"] == {"size": "large"}


def test_a_namespace_made_with_policies_never_was_without(admin: Admin) -> None:
    name = f"names/{uuid4().hex}"
    admin.makes_namespace(name, {"message_ttl_in_seconds": 7, "encryption_required": True})
    assert admin.get(f"namespaces/{name}/messageTTL").json == 7
    assert admin.get(f"namespaces/{name}").json["message_ttl_in_seconds"] == 7
    refused = admin.put(f"namespaces/{name}x", {"message_ttl_in_seconds": "soon"})
    assert refused.status == 400 and "message_ttl_in_seconds" in refused.reason
    assert admin.get(f"namespaces/{name}x").status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"bundles": {"numBundles": 1025}}, 412),
        ({"bundles": {"numBundles": 10**9}}, 412),
        ({"bundles": {"numBundles": -1}}, 412),
        ({"bundles": {"numBundles": "many"}}, 400),
        ({"bundles": 4}, 400),
        ({"bundles": {"boundaries": ["0x00000000", "0x80000000"]}}, 412),
        ({"bundles": {"boundaries": [1, 2]}}, 400),
        ({"replication_clusters": ["other"]}, 403),
        ({"replication_clusters": "standalone"}, 400),
        ({"properties": {"a": 1}}, 400),
        ({"properties": {"a": "x" * 66_000}}, 412),
        ([], 400),
        (b"{", 400),
        (b"[" * 60_000, 400),
    ],
)  # fmt: skip
def test_bodies_that_make_no_namespace(admin: Admin, body: object, status: int) -> None:
    admin.makes_namespace(f"names/{uuid4().hex}")
    name = f"namespaces/names/{uuid4().hex}"
    assert admin.put(name, body).status == status
    assert admin.get(name).status == 404


def test_properties_have_a_limit(admin: Admin, namespace: str) -> None:
    topic, parted = f"persistent/{namespace}/topic", f"persistent/{namespace}/parted"
    assert admin.put(topic).status == 204
    assert admin.put(f"{parted}/partitions", 1).status == 204
    for path in (f"namespaces/{namespace}", topic, parted):
        assert admin.put(f"{path}/properties", {"a": "x" * 40_000}).status == 204
        refused = admin.put(f"{path}/properties", {"b": "x" * 40_000})
        assert refused.status == 412 and "65536" in refused.reason
        assert list(admin.get(f"{path}/properties").json) == ["a"]


def test_the_brokers_own_properties_are_not_for_users(
    admin: Admin, broker: RunningBroker, namespace: str
) -> None:
    path, topic = f"persistent/{namespace}/topic", f"persistent://{namespace}/topic"
    with RawClient.of_topic(broker.port, topic) as client:
        client.produce(topic, producer_access_mode=1)
        assert admin.get(f"{path}/properties").json == {}
        assert admin.put(f"{path}/properties", {"topicEpoch": "7"}).status == 412
        assert admin.put(f"{path}/properties", {"a": "b"}).status == 204
        assert admin.get(f"{path}/properties").json == {"a": "b"}
    assert admin.put(f"{path}2", {"topicEpoch": "7"}).status == 412


@pytest.mark.parametrize("count", [10**9, 2**70, "1000000000"])
def test_partitions_without_end(admin: Admin, namespace: str, count: object) -> None:
    path = f"persistent/{namespace}/parted/partitions"
    assert admin.put(path, count).status in (400, 406)
    assert admin.put(path, 1).status == 204
    assert admin.post(path, count).status in (400, 406)
    assert admin.get(path).json["partitions"] == 1


def test_system_topics_are_listed_on_request(
    admin: Admin, broker: RunningBroker, namespace: str
) -> None:
    system = f"persistent://{namespace}/__change_events"
    with RawClient.of_topic(broker.port, system) as client:
        client.produce(system)
    for path in (f"persistent/{namespace}", f"namespaces/{namespace}/topics"):
        assert admin.get(path).json == []
        assert admin.get(f"{path}?includeSystemTopic=true").json == [system]
    assert admin.put(f"persistent/{namespace}/__transaction_buffer_snapshot").status == 400


def test_topics_of_one_bundle(admin: Admin, namespace: str) -> None:
    for number in range(20):
        assert admin.put(f"persistent/{namespace}/t{number}").status == 204
    marks = admin.get(f"namespaces/{namespace}/bundles").json["boundaries"]
    ranges = [f"{low}_{high}" for low, high in pairwise(marks)]
    found = [admin.get(f"persistent/{namespace}?bundle={one}").json for one in ranges]
    assert sorted(chain(*found)) == admin.get(f"persistent/{namespace}").json
    assert sum(bool(topics) for topics in found) > 1


def test_a_subscription_begins_at_the_requested_position(
    admin: Admin, broker: RunningBroker
) -> None:
    topic = f"persistent://public/default/{uuid4().hex}"
    path = topic.replace("://", "/")
    with RawClient.of_topic(broker.port, topic) as client:
        client.produce(topic)
        ids = [client.publish(number, b"%d" % number) for number in range(4)]
    second = {"ledgerId": ids[1].ledgerId, "entryId": ids[1].entryId}
    starts: dict[str, object] = {
        "all": "earliest",
        "none": "latest",
        "empty": None,
        "from": second,
        "behind": {**second, "excluded": True},
    }
    for name, body in starts.items():
        assert admin.put(f"{path}/subscription/{name}", body).status == 204
    wanted = {"all": [0, 1, 2, 3], "none": [], "empty": [], "from": [1, 2, 3], "behind": [2, 3]}
    for name, entries in wanted.items():
        with RawClient.of_topic(broker.port, topic) as client:
            client.subscribe(topic, name)
            client.flow(100)
            received = [client.next_message() for _ in entries]
            client.ping()
            assert [id_of(message).entry for message in received] == entries
            assert not client.has_message()


@pytest.mark.parametrize("name", ["my/sub", "a b", "é%x", "%2F", "50%", "a&b=c", "plain"])
def test_names_of_subscriptions_come_encoded_twice(admin: Admin, namespace: str, name: str) -> None:
    """Pulsar's own admin client sends names so: form encoding within percent-encoding."""
    topic = f"persistent/{namespace}/topic"
    twice = quote(quote_plus(name), safe="")
    path = f"{topic}/subscription/{twice}"
    assert admin.put(path).status == 204
    assert admin.get(f"{topic}/subscriptions").json == [name]
    for method, below, body in (
        ("PUT", "properties", {"a": "b"}),
        ("GET", "properties", None),
        ("POST", "skip/1", None),
        ("POST", "skip_all", None),
        ("POST", "resetcursor/0", None),
        ("POST", "resetcursor", "earliest"),
        ("POST", "analyzeBacklog", "earliest"),
        ("GET", "whyNotDelivering", None),
        ("GET", "deadLetters", None),
    ):
        answer = admin.ask(method, f"{path}/{below}", body)
        assert answer.status < 300, (below, answer)
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": -1}
    assert admin.post(f"{topic}/{twice}/dispatchRate", rate).status == 204
    assert admin.get(f"{topic}/{twice}/dispatchRate").json["dispatchThrottlingRateInMsg"] == 5
    assert admin.delete(path).status == 204
    assert admin.get(f"{topic}/subscriptions").json == []


@pytest.mark.parametrize("name", ["my/sub", "a b", "é", "50%", "a&b=c", "100%zz"])
def test_names_of_subscriptions_come_encoded_once(admin: Admin, namespace: str, name: str) -> None:
    path = f"persistent/{namespace}/topic/subscription/{quote(name, safe='')}"
    assert admin.put(path).status == 204
    assert admin.get(f"persistent/{namespace}/topic/subscriptions").json == [name]
    assert admin.delete(path).status == 204


def test_a_subscription_with_properties_alone_begins_at_the_beginning(
    broker: RunningBroker, admin: Admin, namespace: str
) -> None:
    topic = f"persistent://{namespace}/topic"
    with RawClient.of_topic(broker.port, topic) as client:
        client.produce(topic)
        client.publish(0, b"first")
    path = f"persistent/{namespace}/topic/subscription/sub"
    assert admin.put(path, {"properties": {"a": "b"}}).status == 204
    assert admin.get(f"{path}/properties").json == {"a": "b"}
    stats = admin.get(f"persistent/{namespace}/topic/stats").json
    assert stats["subscriptions"]["sub"]["msgBacklog"] == 1
    half = admin.put(f"{path}2", {"ledgerId": 1, "properties": {"a": "b"}})
    assert half.status == 400 and "ledgerId and entryId" in half.reason
