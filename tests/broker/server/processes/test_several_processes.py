"""The REST API of a broker of several processes: it answers as a single process does."""

import json
import re
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any

from fakes.rest_world import PARTED, SETTINGS, SPACE, TOPIC, VOLATILE, World, used
from magnetar_broker.placement.bundle_splits import POSITIONS, TOPICS
from magnetar_broker.server.admin.operations import messages, subscriptions, table, topics
from magnetar_broker.server.http.messages import Response
from magnetar_proto.names import TopicName

BY_POSITIONS = f"splitAlgorithmName={POSITIONS}"
PLACE = {"ledgerId": 1, "entryId": 1}
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
    (f"GET {TOPIC}/damaged?scan=true", None),
    (f"GET {PARTED}/damaged", None),
    (f"POST {PARTED}/skipDamaged?scan=true", None),
    (f"POST {VOLATILE}/skipDamaged", None),
    (f"POST {TOPIC}missing/skipDamaged", None),
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
    """Return an answer without ledger numbers, which depend on the creation order of topics."""
    return response.status, re.sub(r'("ledgerId"): \d+', r"\1: n", response.body.decode())


def test_several_processes_answer_as_one() -> None:
    one, several = used(1), used(3)
    for line, body in REQUESTS:
        expected, found = shown(one.ask(line, body)), shown(several.ask(line, body))
        assert found == expected, line
        assert found[0] != 500, line


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


def test_a_namespace_whose_deletion_was_interrupted_is_created_again_when_it_is_over() -> None:
    world = World(2, replace(SETTINGS, force_delete_namespace_allowed=True))
    assert world.processes is not None
    space = "/admin/v2/namespaces/public/again"
    assert world.ask(f"PUT {space}").status == 204
    world.publish("persistent://public/again/topic", 1)
    number = world.processes.number_of(TopicName.parse("persistent://public/again/topic"))
    world.processes.workers[number].joined.cut()
    world.clock.pump()
    assert world.ask(f"DELETE {space}?force=true").status == 503
    assert world.ask(f"PUT {space}").status == 503, "it waits for the worker that has the topic"
    world.processes.replace(number)
    assert world.ask(f"PUT {space}").status == 204
    assert json.loads(world.ask("GET /admin/v2/persistent/public/again").body) == []


def test_generated_names_of_producers_differ_between_workers() -> None:
    world = World(3)
    assert world.processes is not None
    made = [one.broker.producer_name() for one in world.processes.workers for _ in range(2)]
    assert len(set(made)) == len(made)
