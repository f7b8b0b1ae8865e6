"""Settings over HTTP: those in effect, their sources, and changes at runtime."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pulsar
import pytest

from admin_http import Admin
from broker.server.processes.test_worker import worker_pids
from magnetar_broker.config.settings import KEYS
from official import Again, connect, either_way
from running_broker import RunningBroker

Make = Callable[..., RunningBroker]
SET = "brokers/configuration"
BOTH = pytest.mark.parametrize("workers", ["1", "3"])


def producers(client: pulsar.Client, topic: str, count: int) -> int:
    """Return how many of `count` producers can be open on a topic at the same time."""
    opened = []
    for _ in range(count):
        try:
            opened.append(client.create_producer(topic))
        except pulsar.PulsarException:
            break
    for one in opened:
        one.close()
    return len(opened)


def explained(admin: Admin, topic: str, policy: str) -> tuple[object, str, str]:
    found = admin.get(f"{topic}/policies/explain").json[policy]
    return found["value"], found["origin"], found["source"]


@BOTH
def test_a_change_is_followed_by_loaded_topics_of_every_process(
    make_broker: Make, workers: str
) -> None:
    broker = make_broker(magnetarWorkers=workers)
    admin, client = Admin(broker), connect(broker.service_url)
    topics = [f"persistent://public/default/t{n}" for n in range(8)]
    topics += [f"non-{topic}" for topic in topics]
    for topic in topics:  # loaded before the change, in all workers
        client.create_producer(topic).close()
    assert admin.post(f"{SET}/maxProducersPerTopic/1").status == 200
    assert [producers(client, topic, 2) for topic in topics] == [1] * len(topics)
    late = "persistent://public/default/late"
    assert producers(client, late, 2) == 1
    path = late.replace("://", "/")
    assert explained(admin, path, "max_producers") == (1, "broker", "settings maxProducersPerTopic")
    assert admin.delete(f"{SET}/maxProducersPerTopic").status == 200
    assert [producers(client, topic, 2) for topic in topics] == [2] * len(topics)
    client.close()


@BOTH
@either_way
def test_a_change_is_durable_until_it_is_deleted(
    make_broker: Make, workers: str, again: Again
) -> None:
    broker = make_broker(magnetarWorkers=workers)
    admin = Admin(broker)
    assert admin.post(f"{SET}/maxProducersPerTopic/1").status == 200
    assert admin.post(f"{SET}/maxTopicsPerNamespace/7").status == 200
    assert admin.delete(f"{SET}/maxTopicsPerNamespace").status == 200
    broker = again(broker)
    assert admin.get(f"{SET}/values").json == {"maxProducersPerTopic": "1"}
    client = connect(broker.service_url)
    assert producers(client, "persistent://public/default/t", 2) == 1
    client.close()


def test_a_worker_that_is_started_again_knows_the_changes(make_broker: Make) -> None:
    broker = make_broker(magnetarWorkers="2")
    assert Admin(broker).post(f"{SET}/maxProducersPerTopic/1").status == 200
    client = connect(broker.service_url)
    names = [f"persistent://public/default/t{n}" for n in range(6)]
    for pid in worker_pids(broker).values():
        os.kill(pid, signal.SIGKILL)
    assert [producers(client, name, 2) for name in names] == [1] * len(names)
    client.close()


def test_a_namespace_s_policy_takes_precedence_over_a_changed_default(make_broker: Make) -> None:
    broker = make_broker()
    admin = Admin(broker)
    topic = "persistent/public/default/t"
    assert admin.put(topic).status == 204
    assert admin.post("namespaces/public/default/messageTTL", 5).status == 204
    assert admin.post(f"{SET}/ttlDurationDefaultInSeconds/60").status == 200
    assert explained(admin, topic, "message_ttl")[:2] == (5, "namespace")
    assert admin.delete("namespaces/public/default/messageTTL").status == 204
    assert explained(admin, topic, "message_ttl")[:2] == (60, "broker")
    assert admin.get(f"{topic}/messageTTL?applied=true").json == 60


@BOTH
def test_rates_of_the_whole_broker_change(make_broker: Make, workers: str) -> None:
    broker = make_broker(magnetarWorkers=workers)
    admin, client = Admin(broker), connect(broker.service_url)
    producer = client.create_producer("persistent://public/default/t", batching_enabled=False)
    assert admin.post(f"{SET}/brokerPublisherThrottlingMaxByteRate/1").status == 200
    receipts: list[pulsar.Result] = []
    for _ in range(3):  # the first is let through, and the rest waits nearly for ever
        producer.send_async(b"x" * 100_000, lambda result, _: receipts.append(result))
    assert admin.delete(f"{SET}/brokerPublisherThrottlingMaxByteRate").status == 200
    producer.flush()
    assert receipts == [pulsar.Result.Ok] * 3
    client.close()


def test_what_cannot_be_changed_is_refused_with_the_reason(make_broker: Make) -> None:
    admin = Admin(make_broker(maxNumPartitionsPerPartitionedTopic="5"))

    def refusal(method: str, path: str) -> str:
        answer = admin.ask(method, f"{SET}/{path}")
        assert answer.status == 412, answer
        return answer.reason

    assert "read at the start only" in refusal("POST", "brokerServicePort/1")
    assert "read at the start only" in refusal("DELETE", "brokerServicePort")
    assert "not a setting" in refusal("POST", "nonsense/1")
    assert "not a setting" in refusal("DELETE", "nonsense")
    assert "no effect here" in refusal("POST", "managedLedgerDefaultEnsembleSize/1")
    assert "expected a whole number" in refusal("POST", "ttlDurationDefaultInSeconds/x")
    assert "expected a whole number" in refusal("POST", "ttlDurationDefaultInSeconds/-1")
    assert "expected" in refusal("POST", "ttlDurationDefaultInSeconds/%20")
    assert "at most maxNumPartitions" in refusal("POST", "defaultNumPartitions/6")
    assert admin.get(f"{SET}/values").json == {}


@BOTH
@either_way
def test_a_change_that_takes_effect_in_pulsar_alone_is_stored_with_a_warning(
    make_broker: Make, workers: str, again: Again
) -> None:
    broker = make_broker(magnetarWorkers=workers)
    admin, name = Admin(broker), "loadBalancerSheddingExcludedNamespaces"
    answer = admin.post(f"{SET}/{name}/public%2Fdefault")
    assert answer.status == 200
    assert f"{name} is stored without effect" in answer.headers["Warning"]
    assert f"{name} was changed at run time and has no effect here" in broker.log
    assert admin.post(f"{SET}/maxTenants/3").headers["Warning"] is None
    usual = "maxUnloadBundleNumPerShedding/-1"
    assert admin.post(f"{SET}/{usual}").headers["Warning"] is None, "as Pulsar ships it"
    assert admin.delete(f"{SET}/{usual.partition('/')[0]}").status == 200
    broker = again(broker)
    assert f"changed at run time are without effect here: {name}\n" in broker.log_of_start
    in_effect = 'changed at run time are in effect: {"maxTenants": "3"}\n'
    assert in_effect in broker.log_of_start
    values = {name: "public/default", "maxTenants": "3"}
    assert admin.get(f"{SET}/values").json == values
    assert admin.get(f"{SET}/runtime").json["maxTenants"] == "3"
    assert admin.delete(f"{SET}/{name}").status == 200
    assert admin.get(f"{SET}/values").json == {"maxTenants": "3"}


def test_settings_are_shown_with_their_origins(make_broker: Make, tmp_path: Path) -> None:
    broker = make_broker(maxTenants="70")
    admin = Admin(broker)
    assert admin.post(f"{SET}/ttlDurationDefaultInSeconds/60").status == 200
    names = admin.get(SET).json
    assert names == sorted(names)
    assert {key.name for key in KEYS.values() if key.dynamic} < set(names)
    assert "loadBalancerSheddingExcludedNamespaces" in names
    assert "brokerServicePort" not in names
    assert admin.get(f"{SET}/").json == names
    running = admin.get(f"{SET}/runtime").json
    assert running.keys() == {key.name for key in KEYS.values()}
    assert running["maxTenants"] == "70"
    assert running["ttlDurationDefaultInSeconds"] == "60"
    found = admin.get(f"{SET}/explain").json
    assert found["maxTenants"]["origin"] in ("file", "environment", "command line")
    assert found["ttlDurationDefaultInSeconds"] == {
        "value": "60",
        "default": "0",
        "origin": "dynamic",
        "source": "dynamic",
        "dynamic": True,
    }
    assert found["maxMessageSize"]["origin"] == "default"
    assert found["brokerServicePort"]["dynamic"] is False
    internal = admin.get("brokers/internal-configuration").json
    assert internal["metadataStoreUrl"] == f"file://{broker.data_dir}"


def test_limits_of_names_and_permitted_deletions_change(make_broker: Make) -> None:
    admin = Admin(make_broker())
    tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
    assert admin.post(f"{SET}/maxTenants/2").status == 200
    assert admin.put("tenants/third", tenant).status == 412
    assert admin.post(f"{SET}/maxTenants/3").status == 200
    assert admin.put("tenants/third", tenant).status == 204
    assert admin.put("namespaces/third/one").status == 204
    assert admin.post(f"{SET}/maxNamespacesPerTenant/1").status == 200
    assert admin.put("namespaces/third/two").status == 412
    assert admin.delete("tenants/third?force=true").status == 405
    assert admin.post(f"{SET}/forceDeleteTenantAllowed/true").status == 200
    assert admin.delete("tenants/third?force=true").status == 204


@BOTH
def test_a_shutdown_over_http_stops_the_broker_in_order(make_broker: Make, workers: str) -> None:
    broker = make_broker(magnetarWorkers=workers)
    assert Admin(broker).post("brokers/shutdown").status == 204
    assert broker.wait() == 0
