"""The traces that `magnetar consume`, `read` and `peek-messages` leave at a broker."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import magnetar
from admin_http import Admin
from magnetar import schema
from magnetar_broker.server.admin.routes import ROUTES
from running_broker import RunningBroker

TIMEOUT_S = 120
PARAMETER = re.compile(r"{(\w+)(?::[^}]*)?}")
OTHERWISE = re.compile("/health|/metrics|mbeans|load-report|/brokers|openapi")
"""Paths whose answers describe the process, and change by themselves."""
CHANGING = re.compile(
    r"Rate|Throughput|Timestamp|TimeMillis|TimeStamp|GeneratedAt|AgeSeconds|Counter|OutCount|nowMs"
)
"""Members of answers that count deliveries, or contain a time."""
Whole = dict[str, Any]
NAMESPACE = "persistent://public/default"
COMMANDS = [
    ("consume", "t", "-n", "3"),
    ("consume", "t", "--create", "-n", "1"),
    ("consume", "t", "-t", "Shared", "-n", "1"),
    ("consume", "t", "-s", "mine", "-m", "NonDurable", "-n", "1"),
    ("consume", "p", "--wait", "0.1"),
    ("consume", "p-partition-0", "-p", "latest", "--wait", "0.1"),
    ("consume", "--regex", ".*", "--wait", "0.1"),
    ("read", "t", "-n", "3"),
    ("read", "p", "-n", "1"),
    ("admin", "topics", "peek-messages", f"{NAMESPACE}/t", "-s", "kept", "-n", "2"),
    ("admin", "subscriptions", "peek-messages", f"{NAMESPACE}/t", "kept"),
]
MISSING = [
    ("consume", "missing"),
    ("consume", "missing", "-s", "s", "-n", "1"),
    ("consume", "missing", "--follow", "-m", "NonDurable", "-s", "s"),
    ("consume", "p-partition-7", "-n", "1"),
    ("consume", "non-persistent://public/default/missing", "--follow"),
    ("consume", "--regex", "missing-.*", "--follow"),
    ("read", "missing", "--follow"),
    ("read", "p", "-m", "1:1:7"),
    ("admin", "topics", "peek-messages", f"{NAMESPACE}/missing", "-s", "s"),
    ("admin", "topics", "peek-messages", f"{NAMESPACE}/t", "-s", "missing"),
]


def run(broker: RunningBroker, *arguments: str) -> subprocess.CompletedProcess[str]:
    urls = {"MAGNETAR_URL": broker.service_url, "MAGNETAR_ADMIN_URL": broker.http_url}
    return subprocess.run(
        [str(Path(sys.executable).with_name("magnetar")), *arguments],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=os.environ | urls,
    )  # fmt: skip


def leaves(answer: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the values in an answer with their places, except those that change by themselves."""
    if isinstance(answer, dict):
        for name, one in answer.items():
            if not CHANGING.search(name):
                yield from leaves(one, f"{place} {name}")
    elif isinstance(answer, list):
        for one in answer:
            yield from leaves(one, f"{place} {one if isinstance(one, str) else ''}")
    else:
        yield place, answer


class Looking:
    """Reads all resources of the admin API: tenants, namespaces, topics and the rest."""

    def __init__(self, broker: RunningBroker) -> None:
        self._admin = Admin(broker)
        self.found: Whole = {}
        reading = (one for one, _ in ROUTES.routes if one.method == "GET" and not one.acts)
        patterns = (one.pattern for one in reading)
        self._patterns = [one for one in patterns if not OTHERWISE.search(one)]
        self._look()

    def _look(self) -> None:
        self._read({})
        for tenant in self._list("/admin/v2/tenants"):
            self._read({"tenant": tenant})
            for namespace in self._list(f"/admin/v2/namespaces/{tenant}"):
                names = {"tenant": tenant, "namespace": namespace.partition("/")[2]}
                self._read(names)
                self._read_topics(names)

    def _read_topics(self, names: dict[str, str]) -> None:
        for domain in ("persistent", "non-persistent"):
            of_domain = names | {"domain": domain}
            self._read(of_domain)
            place = f"/admin/v2/{domain}/{names['tenant']}/{names['namespace']}"
            for name in {*self._list(place), *self._list(f"{place}/partitioned")}:
                topic = of_domain | {"topic": name.rpartition("/")[2]}
                self._read(topic)
                for one in self._list(f"{place}/{topic['topic']}/subscriptions"):
                    self._read(topic | {"subscription": one})

    def _list(self, path: str) -> list[str]:
        return [str(name) for name in self._admin.get(path).json]

    def _read(self, names: dict[str, str]) -> None:
        """Read each path that needs exactly these names."""
        for pattern in self._patterns:
            if set(PARAMETER.findall(pattern)) == set(names):
                path = PARAMETER.sub(lambda match: names[match[1]], pattern)
                answer = self._admin.get(path)
                self.found[path] = answer.status
                try:
                    self.found |= leaves(json.loads(answer.body), path)
                except ValueError:
                    self.found[f"{path} "] = answer.body


def different(before: Whole, after: Whole) -> Whole:
    return {
        path: (before.get(path), after.get(path))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }


async def started(make_broker: Callable[..., RunningBroker]) -> RunningBroker:
    """Start a broker with a topic that has a schema and a subscription, and a partitioned topic."""
    broker = make_broker()
    assert Admin(broker).put("persistent/public/default/p/partitions", 2).status == 204
    async with magnetar.connect(broker.service_url) as client:
        kept = await client.subscribe("t", "kept", initial_position="earliest")
        texts = await client.producer("t", schema=schema.String())
        await texts.send_batch(["one", "two", "three"])
        kept.ack(await kept.receive())
        await (await client.producer("p")).send_batch([b"%d" % number for number in range(8)])
    Looking(broker)  # which loads all topics
    return broker


async def test_reading_changes_nothing(make_broker: Callable[..., RunningBroker]) -> None:
    broker = await started(make_broker)
    before = Looking(broker).found
    for arguments in COMMANDS:
        result = run(broker, *arguments)
        assert result.returncode == 0, (arguments, result.stderr)
        assert not different(before, Looking(broker).found), arguments


async def test_what_is_missing_is_an_error_and_not_created(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = await started(make_broker)
    before = Looking(broker).found
    for arguments in MISSING:
        result = run(broker, *arguments)
        assert result.returncode == 1, (arguments, result.stdout, result.stderr)
        assert "missing" in result.stderr or "-partition-7" in result.stderr, arguments
        assert not different(before, Looking(broker).found), arguments
    told = run(broker, "read", "missing").stderr
    assert (
        told == f"Error: {NAMESPACE}/missing does not exist: create it with --create, or send "
        "messages to it first\n"
    )


async def test_what_is_asked_for_stays(make_broker: Callable[..., RunningBroker]) -> None:
    broker = await started(make_broker)
    admin = Admin(broker)
    assert run(broker, "consume", "t", "-s", "mine", "-n", "2").returncode == 0
    assert run(broker, "consume", "new", "--create", "--wait", "0.1").returncode == 0
    assert run(broker, "read", "other", "--create", "--wait", "0.1").returncode == 0
    assert sorted(admin.get("persistent/public/default/t/subscriptions").json) == ["kept", "mine"]
    topics = admin.get("persistent/public/default").json
    assert {f"{NAMESPACE}/new", f"{NAMESPACE}/other"} <= set(topics)
    assert admin.get("persistent/public/default/new/subscriptions").json == []
    rest = run(broker, "consume", "t", "-s", "mine", "-n", "1")
    assert [line.rpartition(" ")[2] for line in rest.stdout.splitlines()] == ["three"]
