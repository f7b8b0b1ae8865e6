"""Pulsar's own tools: all that pulsar-admin does here, pulsar-perf, and pulsar-client."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest

from admin_http import Admin
from clients import builds
from clients.admin_commands import GROUPS, TOPIC, WITHOUT, Line, script
from clients.tools_driver import ToolsDriver
from running_broker import RunningBroker

MakeBroker = Callable[..., RunningBroker]
MISSING = builds.missing("java", "javac", "mvn")
PERF_TOPIC = "persistent://public/default/perf"
SCHEMA = {
    "type": "AVRO",
    "schema": json.dumps(
        {"type": "record", "name": "Someone", "fields": [{"name": "age", "type": "int"}]}
    ),
    "properties": {},
}


class Play:
    """One broker, and what commands need of it."""

    def __init__(self, broker: RunningBroker, folder: Path) -> None:
        self.url = broker.http_url
        self._broker = broker
        self._schema = folder / "schema.json"
        self._schema.write_text(json.dumps(SCHEMA))
        self._admin = Admin(broker)

    def words(self, line: Line) -> list[str]:
        """The words of a command."""
        text = line.words
        for name, value in (
            ("ledger", self._ledger), ("schema", lambda: str(self._schema)),
            ("bundle", lambda: "0x00000000_0x40000000"), ("broker", self._process),
        ):  # fmt: skip
            if f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", value())
        return shlex.split(text)

    def publish(self) -> None:
        """Twelve messages, each an entry of its own."""
        client = pulsar.Client(self._broker.service_url)
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for number in range(12):
            producer.send(f"payload-{number}".encode(), partition_key=f"{number}")
        client.close()

    def _ledger(self) -> str:
        path = TOPIC.replace("://", "/")
        return str(self._admin.get(f"{path}/lastMessageId").json["ledgerId"])

    def _process(self) -> str:
        return str(self._admin.get("brokers").json[0])


if MISSING:

    def test_what_pulsar_admin_needs_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
        with capsys.disabled():
            print(f"\n{', '.join(MISSING)} not installed: pulsar-admin not run")

else:

    @pytest.fixture(scope="module")
    def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsDriver]:
        driver = ToolsDriver(tmp_path_factory.mktemp("tools") / "log")
        yield driver
        driver.close()

    @pytest.fixture(scope="module")
    def known(tools: ToolsDriver) -> frozenset[str]:
        printed = tools.run("http://127.0.0.1:1", ["commands"]).printed
        return frozenset(line for line in printed.splitlines() if line.split(" ", 1)[0] in GROUPS)

    def test_every_command_is_played(known: frozenset[str]) -> None:
        played = {line.name for line in script(known)} - {"publish"}
        assert played <= known
        assert known - played == set(WITHOUT)

    @pytest.mark.parametrize("workers", ["1", "3"])
    def test_every_command_does_what_it_should(
        tools: ToolsDriver,
        known: frozenset[str],
        make_broker: MakeBroker,
        tmp_path: Path,
        workers: str,
    ) -> None:
        play = Play(make_broker(magnetarWorkers=workers), tmp_path)
        wrong = []
        for line in script(known):
            if line.words == "publish":
                play.publish()
                continue
            ran = tools.run(play.url, play.words(line))
            if ran.worked is not line.works or not re.search(line.shows, ran.printed):
                wrong.append(
                    f"{line.words}\n  worked: {ran.worked}, expected {line}\n{ran.printed}"
                )
        assert not wrong, "\n".join(wrong)

    def test_pulsar_perf(tools: ToolsDriver, make_broker: MakeBroker) -> None:
        broker = make_broker()
        for words in (
            ("produce", "-r", "500", "-m", "400", "-s", "100"),
            ("consume", "-m", "400", "-sp", "Earliest", "-ss", "sub"),
            ("read", "-n", "400"),
        ):
            program, *others = words
            ran = tools.play(
                "magnetar.tools.Perf", program, "-u", broker.service_url, *others, PERF_TOPIC
            )
            assert ran.worked, ran.printed
            found = re.search(r"Aggregated throughput stats --- (\d+) records", ran.printed)
            assert found is not None and int(found[1]) >= 400, ran.printed

    def test_pulsar_client(tools: ToolsDriver, make_broker: MakeBroker, tmp_path: Path) -> None:
        broker = make_broker()
        conf = tmp_path / "client.conf"
        conf.write_text(f"webServiceUrl={broker.http_url}\nbrokerServiceUrl={broker.service_url}\n")
        client = ("org.apache.pulsar.client.cli.PulsarClientTool", str(conf))
        sent = tools.play(*client, "produce", PERF_TOPIC, "-m", "one,two", "-n", "2", "-k", "key")
        assert sent.worked and "4 messages successfully produced" in sent.printed, sent.printed
        took = tools.play(*client, "consume", PERF_TOPIC, "-s", "sub", "-n", "4", "-p", "Earliest")
        assert took.worked and took.printed.count("content:one") == 2, took.printed
