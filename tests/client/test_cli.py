"""`magnetar produce` and `magnetar consume` as a person uses them."""

import json
import os
import subprocess
import sys
import uuid
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from magnetar import cli
from running_broker import RunningBroker

TIMEOUT_S = 60


def new_topic() -> str:
    return f"persistent://public/default/t-{uuid.uuid4().hex[:10]}"


def magnetar(
    broker: RunningBroker | None, *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the installed command; the service URL comes from the environment."""
    url = {} if broker is None else {"MAGNETAR_URL": broker.service_url}
    return subprocess.run(
        [str(Path(sys.executable).with_name("magnetar")), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=os.environ | url,
        timeout=TIMEOUT_S,
        check=False,
    )


def consumed(broker: RunningBroker, topic: str, count: int) -> list[dict[str, object]]:
    result = magnetar(broker, "consume", topic, "--json", "--count", str(count))
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_messages_from_arguments_come_back_as_json(broker: RunningBroker) -> None:
    topic = new_topic()
    result = magnetar(broker, "produce", topic, "one", "zwei", "--key", "k", "--property", "a=b=c")
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("2 messages stored")
    first, second = consumed(broker, topic, 2)
    assert (first["value"], second["value"]) == ("one", "zwei")
    assert first["key"] == "k"
    assert first["properties"] == {"a": "b=c"}
    assert first["topic"] == topic
    left = magnetar(broker, "consume", topic, "--wait", "0.1")
    assert (left.stdout, left.stderr) == ("", "0 messages\n"), "they were acknowledged"


def test_lines_of_standard_input(broker: RunningBroker, tmp_path: Path) -> None:
    topic = new_topic()
    assert magnetar(broker, "produce", topic, stdin="a\r\n\nlast").returncode == 0
    lines = tmp_path / "lines"
    lines.write_text("from a file\n")
    with lines.open() as stdin:
        subprocess.run(
            [str(Path(sys.executable).with_name("magnetar")), "produce", topic],
            stdin=stdin,
            env=os.environ | {"MAGNETAR_URL": broker.service_url},
            timeout=TIMEOUT_S,
            check=True,
            capture_output=True,
        )
    found = [message["value"] for message in consumed(broker, topic, 4)]
    assert found == ["a", "", "last", "from a file"]


def test_generated_messages_and_text_for_people(broker: RunningBroker) -> None:
    topic = new_topic()
    result = magnetar(
        broker, "produce", topic, "--count", "3", "--size", "12", "--rate", "10000",
        "--compression", "lz4", "--key", "kk", "--property", "p=q",
    )  # fmt: skip
    assert result.stderr.startswith("3 messages stored")
    shown = magnetar(broker, "consume", topic, "--count", "3", "--type", "shared")
    lines = shown.stdout.splitlines()
    assert [line.split()[-1] for line in lines] == [f"{number:012d}" for number in range(3)]
    assert all(" key='kk' p=q " in line for line in lines)


def test_values_that_are_not_text(broker: RunningBroker) -> None:
    topic = new_topic()
    assert magnetar(broker, "produce", topic, "--count", "1", "--size", "0").returncode == 0
    raw = subprocess.run(
        [str(Path(sys.executable).with_name("magnetar")), "produce", topic],
        input=b"\xff\x00\n",
        env=os.environ | {"MAGNETAR_URL": broker.service_url},
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert raw.stderr.startswith(b"1 message stored")
    empty, binary = consumed(broker, topic, 2)
    assert empty["value"] == ""
    assert binary["value_hex"] == "ff00"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("produce", "a/b", "x"), "'a/b' is not a topic"),
        (("produce", "t", "x", "--url", "http://h"), "is not a service URL"),
        (("produce", "t", "x", "--count", "1"), "either messages or --count"),
        (("produce", "t", "x", "--property", "novalue"), "'novalue' is not NAME=VALUE"),
        (
            ("produce", "t", "x", "--url", "pulsar://127.0.0.1:1", "--timeout", "0.1"),
            "cannot connect to 127.0.0.1:1",
        ),
        (("consume", "t", "--type", "nope"), "Invalid value for '--type'"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(arguments: tuple[str, ...], why: str) -> None:
    result = magnetar(None, *arguments)
    assert result.returncode != 0
    assert why in result.stderr
    assert "Traceback" not in result.stderr


def test_commands_of_other_packages_are_listed() -> None:
    result = magnetar(None, "--help")
    for name in ("broker", "consume", "produce", "standalone"):
        assert f"\n  {name} " in result.stdout


def test_a_command_whose_package_is_missing_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = EntryPoint("lost", "a_package_that_is_not_there:command", cli.COMMANDS_GROUP)
    monkeypatch.setattr(cli, "_registered", lambda: {"lost": lost})
    runner = CliRunner()
    result = runner.invoke(cli.main, ["lost", "--port", "1"])
    assert result.exit_code == 1
    assert "needs the module a_package_that_is_not_there" in result.output
    assert "install magnetar again, with its dependencies" in result.output
    assert "lost" in runner.invoke(cli.main, ["--help"]).output


def test_a_broker_without_one_of_its_libraries_names_it(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['h11'] = None"
    program = f"{hidden}; from magnetar.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", program, "standalone", "--data-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 1
    assert "the module h11 is not installed: install magnetar again" in result.stderr
    assert "Traceback" not in result.stderr
