"""The REST API of a broker of several processes: it answers what a single process answers."""

import json
import re
from collections.abc import Coroutine
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, cast
from urllib.parse import parse_qsl

import pytest

from fakes.connection import RecordingConnection
from fakes.logs import LogWorld
from fakes.processes import SERVICE_URL, Processes
from fakes.world import start
from magnetar_broker.broker import Broker
from magnetar_broker.config import Settings
from magnetar_broker.dispatch.consumer import Consumer, SubscribeRequest
from magnetar_broker.names.bundle_splits import POSITIONS, TOPICS
from magnetar_broker.names.bundles import hash_of
from magnetar_broker.names.ownership import SoleOwner
from magnetar_broker.publishing.producer import ProducerRequest, Sends
from magnetar_broker.server.admin.linked_owners import LinkedOwners
from magnetar_broker.server.admin.operations import messages, subscriptions, table, topics
from magnetar_broker.server.admin.owners import SoleProcess
from magnetar_broker.server.admin.routes import ROUTES
from magnetar_broker.server.admin.site import Pages, Site
from magnetar_broker.server.health import HealthCheck
from magnetar_broker.server.http.errors import refusal_of
from magnetar_broker.server.http.messages import Request, Response
from magnetar_broker.server.linked_health import ANSWER_SECONDS, LinkedHealth
from magnetar_broker.standalone import standalone
from magnetar_proto.names import TopicName
from magnetar_storage.errors import Unavailable

SETTINGS = Settings(default_number_of_namespace_bundles=4)
"""As many bundles, however many processes there are."""
TOPIC = "/admin/v2/persistent/public/default/topic"
PARTED = "/admin/v2/persistent/public/default/parted"
VOLATILE = "/admin/v2/non-persistent/public/default/volatile"
SPACE = "/admin/v2/namespaces/public/default"
SYSTEM = "/admin/v2/namespaces/pulsar/system"
BY_POSITIONS = f"splitAlgorithmName={POSITIONS}"
BROKERS = "/admin/v2/brokers"
PLACE = {"ledgerId": 1, "entryId": 1}
NO_PAGES = cast(Pages, None)


class World(LogWorld):
    """A broker and its REST API, of one process or several."""

    def __init__(self, workers: int, settings: Settings = SETTINGS) -> None:
        super().__init__()
        self.processes: Processes | None = None
        if workers == 1:
            owner = SoleOwner(SERVICE_URL)
            directory, self.sole = standalone(settings, self.engine, owner)
            health = HealthCheck(self.sole)
            self.site = Site(directory, SoleProcess(self.sole), NO_PAGES, health)
            self.do(self.sole.start())
        else:
            several = self.processes = Processes(settings, self.engine, self.clock, workers)
            owners = LinkedOwners(several.residence, self.engine)
            linked = LinkedHealth(several.residence.links, self.engine)
            self.site = Site(several.directory, owners, NO_PAGES, linked)
            several.start()

    def broker(self, name: TopicName) -> Broker:
        return self.sole if self.processes is None else self.processes.of(name).broker

    def ask(self, line: str, body: Any = None) -> Response:
        """The answer to a request, as in `GET /path?query`."""
        method, _, target = line.partition(" ")
        path, _, query = target.partition("?")
        pairs = parse_qsl(query)
        sent = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, dict(pairs), {}, sent, 8080, pairs=pairs)
        try:
            handler, parameters = ROUTES.find(method, path)
            answer = handler(self.site, replace(request, parameters=parameters))
            return self.do(cast(Coroutine[Any, Any, Response], answer))
        except Exception as error:
            return refusal_of(request, error)

    def publish(self, text: str, payloads: int) -> None:
        name = TopicName.parse(text)
        topic = self.do(self.broker(name).topic(name, True))
        request = ProducerRequest(1, "producer")
        producer = self.do(topic.producers.add(RecordingConnection(), request))
        sends = Sends(producer)
        sends.payloads = [b"x"] * payloads
        sends.counts = [1] * payloads
        sends.sequence_ids = sends.highest_ids = list(range(payloads))
        sends.size = payloads
        producer.publish(sends)
        self.clock.pump()
        producer.close()

    def consumer(self, text: str, subscription: str) -> Consumer:
        name = TopicName.parse(text)
        topic = self.do(self.broker(name).topic(name, True))
        request = SubscribeRequest(subscription, 0, 1, "consumer", earliest=True)
        return self.do(topic.subscriptions.subscribe(RecordingConnection(), request))


def used(workers: int) -> World:
    """A world with a topic and a partitioned topic that have messages and subscriptions."""
    world = World(workers)
    assert world.ask(f"PUT {PARTED}/partitions", 3).status == 204
    for text in ("topic", *(f"parted-partition-{index}" for index in range(3))):
        world.consumer(f"persistent://public/default/{text}", "sub").close()
        world.publish(f"persistent://public/default/{text}", 5)
    world.consumer("persistent://public/default/parted-partition-1", "busy")
    world.consumer("non-persistent://public/default/volatile", "sub")
    return world


REQUESTS: tuple[tuple[str, Any], ...] = (
    (f"GET {SPACE}/topics?mode=ALL", None),
    (f"GET {TOPIC}/subscriptions", None),
    (f"GET {PARTED}/subscriptions", None),
    (f"GET {VOLATILE}/subscriptions", None),
    (f"GET {TOPIC}missing/subscriptions", None),
    (f"PUT {TOPIC}/subscription/new", None),
    (f"PUT {TOPIC}/subscription/new", None),
    (f"PUT {PARTED}/subscription/new", {**PLACE, "properties": {"a": "b"}}),
    (f"PUT {PARTED}/subscription/new", None),
    (f"PUT {PARTED}-partition-7/subscription/new", None),
    (f"GET {PARTED}/subscription/new/properties", None),
    (f"PUT {PARTED}/subscription/new/properties", {"c": "d"}),
    (f"GET {PARTED}-partition-2/subscription/new/properties", None),
    (f"GET {PARTED}/subscription/missing/properties", None),
    (f"DELETE {PARTED}/subscription/busy", None),
    (f"DELETE {PARTED}/subscription/busy?force=true", None),
    (f"DELETE {PARTED}/subscription/busy", None),
    (f"POST {TOPIC}/subscription/sub/skip/2", None),
    (f"POST {PARTED}/subscription/sub/skip/2", None),
    (f"POST {PARTED}-partition-0/subscription/sub/skip/2", None),
    (f"POST {TOPIC}/subscription/sub/expireMessages", PLACE),
    (f"POST {TOPIC}/subscription/sub/expireMessages", "latest"),
    (f"POST {TOPIC}/subscription/sub/resetcursor", "earliest"),
    (f"POST {PARTED}/subscription/sub/resetcursor/0", None),
    (f"POST {PARTED}/subscription/missing/resetcursor/0", None),
    (f"POST {PARTED}/subscription/sub/expireMessages/1", None),
    (f"POST {PARTED}/subscription/sub/skip_all", None),
    (f"POST {PARTED}/subscription/sub/expireMessages/1", None),
    (f"POST {PARTED}/all_subscription/expireMessages/1", None),
    (f"POST {PARTED}/trim", None),
    (f"DELETE {PARTED}/truncate", None),
    (f"DELETE {VOLATILE}/truncate", None),
    (f"PUT {TOPIC}/properties", {"a": "b"}),
    (f"PUT {PARTED}/properties", {"a": "b"}),
    (f"PUT {PARTED}-partition-1/properties", {"a": "c"}),
    (f"PUT {TOPIC}/properties", {"topicEpoch": "7"}),
    (f"PUT {TOPIC}/properties", {"a": "b" * 70_000}),
    (f"GET {TOPIC}/properties", None),
    (f"GET {PARTED}/properties", None),
    (f"GET {PARTED}-partition-1/properties", None),
    (f"DELETE {TOPIC}/properties?key=a", None),
    (f"GET {TOPIC}/properties", None),
    (f"POST {SPACE}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}),
    (f"POST {PARTED}/backlogQuota?backlogQuotaType=message_age",
     {"limitTime": 60, "policy": "consumer_backlog_eviction"}),
    (f"GET {PARTED}-partition-1/explainRetention", None),
    (f"GET {TOPIC}/explainRetention", None),
    (f"GET {PARTED}/explainRetention", None),
    (f"GET {TOPIC}/compaction", None),
    (f"PUT {PARTED}/compaction", None),
    (f"PUT {VOLATILE}/compaction", None),
    (f"PUT {TOPIC}missing/compaction", None),
    (f"POST {SPACE}/clearBacklog/sub", None),
    (f"POST {SPACE}/clearBacklog/missing", None),
    (f"POST {SPACE}/clearBacklog", None),
    (f"POST {SPACE}/unsubscribe/new", None),
    (f"POST {SPACE}/unsubscribe/sub", None),
    (f"GET {PARTED}/subscriptions", None),
    (f"POST {TOPIC}/terminate", None),
    (f"POST {PARTED}/terminate", None),
    (f"POST {PARTED}/terminate/partitions", None),
    (f"PUT {PARTED}/unload", None),
    (f"PUT {SPACE}/unload", None),
    (f"PUT {SPACE}/0x00000000_0x00000001/unload?destinationBroker=worker-0", None),
    (f"PUT {SPACE}/first/unload?destinationBroker=worker-0", None),
    (f"PUT {SPACE}/first/split", None),
    (f"PUT {SPACE}/0x00000000_0x40000000/split?unload=true", None),
    (f"PUT {SPACE}/0x00000000_0x40000000/split", None),
    (f"PUT {SPACE}/0x40000000_0x80000000/split?splitAlgorithmName=nonsense", None),
    (f"PUT {SPACE}/0x40000000_0x80000000/split?{BY_POSITIONS}", [2**30 + 1, 2**30 + 2]),
    (f"PUT {SPACE}/0x40000000_0x40000001/split", None),
    (f"PUT {SPACE}/0x40000000_0x40000001/split?{BY_POSITIONS}", None),
    (f"PUT {SPACE}/0x40000000_0x40000001/split?{BY_POSITIONS}", [5]),
    (f"PUT {SPACE}/0x40000000_0x40000001/split?{BY_POSITIONS}", [5.0]),
    (f"PUT {SPACE}/0x40000000_0x40000001/split?splitAlgorithmName={TOPICS}", None),
    (f"PUT {SPACE}/LARGEST/split?splitAlgorithmName={TOPICS}", None),
    (f"PUT {SPACE}/HOT/split", None),
    (f"PUT {SPACE}missing/LARGEST/split", None),
    (f"GET {SPACE}/bundles", None),
    (f"GET {SPACE}/0x00000000_0x1fffffff/topicHashPositions", None),
    (f"GET {SPACE}/0x00000000_0x40000000/topicHashPositions", None),
    ("GET /admin/v2/brokers/backlog-quota-check", None),
    ("GET /admin/v2/brokers/health", None),
    ("GET /admin/v2/brokers/ready", None),
    ("GET /admin/v2/brokers/configuration", None),
    (f"DELETE {VOLATILE}", None),
    (f"DELETE {TOPIC}", None),
    (f"DELETE {PARTED}/partitions", None),
    (f"GET {SPACE}/topics?mode=ALL", None),
)  # fmt: skip


def shown(response: Response) -> tuple[int, str]:
    """Without the numbers of ledgers, which depend on the order in which topics were created."""
    return response.status, re.sub(r'("ledgerId"): \d+', r"\1: n", response.body.decode())


def test_several_processes_answer_as_one() -> None:
    one, several = used(1), used(3)
    for line, body in REQUESTS:
        expected, found = shown(one.ask(line, body)), shown(several.ask(line, body))
        assert found == expected, line
        assert found[0] != 500, line


def test_a_bundle_is_unloaded_to_the_process_that_is_named() -> None:
    world = used(3)
    assert world.processes is not None
    name = TopicName.parse("persistent://public/default/topic")
    number = world.processes.number_of(name)
    path = "/lookup/v2/topic/persistent/public/default/topic/bundle"
    bundle = world.ask(f"GET {path}").body.decode()
    unload = f"PUT {SPACE}/{bundle}/unload"
    topic = world.broker(name).topics.get(name)
    assert topic is not None
    assert world.ask(f"{unload}?destinationBroker=worker-{number}").status == 204
    assert not topic.closed, "it is there already"
    assert world.ask(unload).status == 204
    assert topic.closed
    world.consumer(str(name), "sub")
    for other in ((number + 1) % 3, (number + 2) % 3):
        assert world.ask(f"{unload}?destinationBroker=worker-{other}:8080").status == 204
        assert world.processes.number_of(name) == other
        world.consumer(str(name), "sub")
        assert name in world.processes.workers[other].broker.topics
    refused = world.ask(f"{unload}?destinationBroker=elsewhere:8080")
    assert refused.status == 409
    assert b"expected one of worker-0:8080, worker-1:8080, worker-2:8080" in refused.body


def split_of(world: World, name: TopicName, query: str = "") -> None:
    """Split the bundle of a topic."""
    bundle = world.ask(f"GET /lookup/v2/topic/{str(name).replace('://', '/')}/bundle").body
    assert world.ask(f"PUT {SPACE}/{bundle.decode()}/split{query}").status == 204


@pytest.mark.parametrize("workers", [1, 3])
def test_the_topics_of_a_bundle_stay_open_when_it_is_split(workers: int) -> None:
    world = used(workers)
    name = TopicName.parse("persistent://public/default/topic")
    broker = world.broker(name)
    topic = broker.topics.get(name)
    assert topic is not None
    split_of(world, name)
    assert world.broker(name) is broker and broker.topics.get(name) is topic
    others = [one for one in broker.topics if one is not topic]
    split_of(world, name, "?unload=true")
    assert topic.closed
    assert not any(one.closed for one in others if hash_of(one.name) >> 30 != hash_of(name) >> 30)
    world.consumer(str(name), "sub")
    assert world.broker(name) is broker, "the parts keep the owner"


@pytest.mark.parametrize(
    ("workers", "ids"),
    [(1, ["here:8080"]), (3, ["worker-0:8080", "worker-1:8080", "worker-2:8080"])],
)
def test_brokers_are_listed_as_they_are_named_for_a_move(workers: int, ids: list[str]) -> None:
    world = used(workers)
    for path in (BROKERS, f"{BROKERS}/", f"{BROKERS}/standalone"):
        assert json.loads(world.ask(f"GET {path}").body) == ids
    leader = {"brokerId": ids[0], "serviceUrl": "http://here:8080"}
    assert json.loads(world.ask(f"GET {BROKERS}/leaderBroker").body) == leader
    path = "/lookup/v2/topic/persistent/public/default/topic/bundle"
    bundle = world.ask(f"GET {path}").body.decode()
    for destination in ids:
        unload = f"PUT {SPACE}/{bundle}/unload?destinationBroker={destination}"
        assert world.ask(unload).status == 204
        owned = [f"public/default/{bundle}" in owned_by(world, broker) for broker in ids]
        assert owned == [broker == destination for broker in ids]
        assert world.ask(f"GET {BROKERS}/health?brokerId={destination}").body == b"ok"
    everything = [one for broker in ids for one in owned_by(world, broker)]
    assert len(set(everything)) == len(everything)
    assert {one.rpartition("/")[0] for one in everything} >= {"public/default"}


def owned_by(world: World, broker: str) -> dict[str, Any]:
    """The bundles that a broker owns."""
    answer = world.ask(f"GET {BROKERS}/standalone/{broker}/ownedNamespaces")
    found: dict[str, Any] = json.loads(answer.body)
    assert {tuple(one.values()) for one in found.values()} <= {("shared", False, True)}
    return found


@pytest.mark.parametrize("workers", [1, 3])
def test_brokers_and_clusters_that_are_not_there(workers: int) -> None:
    world = used(workers)
    for path in (
        "nowhere",
        "nowhere/worker-0/ownedNamespaces",
        "standalone/worker-3:8080/ownedNamespaces",
        "standalone/nonsense/ownedNamespaces",
        "health?brokerId=elsewhere:8080",
    ):
        assert world.ask(f"GET {BROKERS}/{path}").status == 404, path


def test_a_deleted_namespace_has_no_owner() -> None:
    world = World(1)
    world.ask("PUT /admin/v2/namespaces/public/other")
    world.consumer("non-persistent://public/other/topic", "sub").close()
    others = [one for one in owned_by(world, "worker-0") if one.startswith("public/other/")]
    assert len(others) == 4
    assert world.ask("DELETE /admin/v2/non-persistent/public/other/topic").status == 204
    assert world.ask("DELETE /admin/v2/namespaces/public/other").status == 204
    assert not [one for one in owned_by(world, "worker-0") if one.startswith("public/other/")]


def test_one_worker_may_be_healthy_while_another_is_not_there() -> None:
    world = used(3)
    assert world.processes is not None
    world.processes.workers[1].joined.cut()
    healthy = [
        world.ask(f"GET {BROKERS}/health?brokerId=worker-{number}:8080").status
        for number in range(3)
    ]
    assert healthy == [200, 503, 200]
    assert world.ask(f"GET {BROKERS}/health").status == 503


def test_every_operation_has_a_name_for_other_processes() -> None:
    known = {**table.OF_TOPIC, **table.OF_PROCESS}
    for module in (messages, subscriptions, topics):
        for operation in filter(iscoroutinefunction, vars(module).values()):
            if operation.__module__ == module.__name__ and not operation.__name__.startswith("_"):
                assert known[table.name_of(operation)] is operation


def test_without_its_worker_a_topic_is_not_ready() -> None:
    world = used(3)
    assert world.processes is not None
    name = TopicName.parse("persistent://public/default/topic")
    world.processes.of(name).joined.cut()
    world.clock.pump()
    found = world.ask(f"POST {TOPIC}/trim")
    assert (found.status, b"starting or stopping" in found.body) == (503, True)
    health = world.ask("GET /admin/v2/brokers/health")
    number = world.processes.number_of(name)
    assert (health.status, f"worker-{number}: ".encode() in health.body) == (503, True)


def test_an_unhealthy_worker_is_named() -> None:
    world = World(3)
    assert world.processes is not None
    assert world.ask("GET /admin/v2/brokers/health").status == 200
    world.engine.store.trouble = Unavailable("the journal failed")  # type: ignore[misc]
    found = world.ask("GET /admin/v2/brokers/health")
    assert (found.status, b"the journal failed" in found.body) == (503, True)


def test_a_worker_that_does_not_answer_is_unhealthy() -> None:
    world = World(3)
    assert world.processes is not None
    world.processes.workers[1].joined.to_right.held = True
    handler, _ = ROUTES.find("GET", "/admin/v2/brokers/health")
    answering = handler(world.site, Request("GET", "", {}, {}, b"", 8080))
    asked = start(cast(Coroutine[Any, Any, Response], answering))
    world.clock.pump()
    assert not asked.done()
    world.clock.advance(ANSWER_SECONDS)
    answer = asked.result()
    assert answer.status == 503
    assert b"worker-1 has not answered" in answer.body


@pytest.mark.parametrize("workers", [2, 3])
def test_every_worker_checks_a_topic_that_it_serves(workers: int) -> None:
    world = World(workers)
    assert world.processes is not None
    assert world.ask("GET /admin/v2/brokers/health").status == 200
    for number, worker in enumerate(world.processes.workers):
        (topic,) = worker.broker.topics
        assert topic.name.is_system
        assert world.processes.number_of(topic.name) == number


def silent_checks(caplog: pytest.LogCaptureFixture) -> int:
    """How often a worker has logged that its health checks send no message."""
    return sum("send no message" in record.message for record in caplog.records)


def workers_with_topics(world: World) -> list[int]:
    """Those that have a topic, after a check that has passed."""
    assert world.processes is not None
    assert world.ask(f"GET {BROKERS}/health").body == b"ok"
    return [one.number for one in world.processes.workers if len(one.broker.topics)]


def test_a_worker_that_serves_no_topic_for_the_check_logs_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(3, Settings(default_number_of_namespace_bundles=1))
    [owner] = workers_with_topics(world)
    assert silent_checks(caplog) == 2
    assert workers_with_topics(world) == [owner]
    assert silent_checks(caplog) == 2, "each has logged it once"
    other = (owner + 1) % 3
    move = f"PUT {SYSTEM}/0x00000000_0xffffffff/unload?destinationBroker"
    assert world.ask(f"{move}=worker-{other}").status == 204
    assert workers_with_topics(world) == [other]
    assert silent_checks(caplog) == 3
    assert world.ask(f"{move}=worker-{owner}").status == 204
    assert workers_with_topics(world) == [owner]
    assert silent_checks(caplog) == 4, "it had a topic meanwhile"


def test_a_worker_with_a_small_part_may_serve_no_topic_for_the_check(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(2, Settings(default_number_of_namespace_bundles=1))
    split = f"PUT {SYSTEM}/0x00000000_0xffffffff/split?{BY_POSITIONS}"
    assert world.ask(split, [5]).status == 204
    for bundle, worker in (("0x00000000_0x00000005", 0), ("0x00000005_0xffffffff", 1)):
        move = f"PUT {SYSTEM}/{bundle}/unload?destinationBroker=worker-{worker}"
        assert world.ask(move).status == 204
    assert workers_with_topics(world) == [1]
    assert silent_checks(caplog) == 1


def test_generated_names_of_producers_differ_between_workers() -> None:
    world = World(3)
    assert world.processes is not None
    made = [one.broker.producer_name() for one in world.processes.workers for _ in range(2)]
    assert len(set(made)) == len(made)
