"""`magnetar produce` and `magnetar consume`, as used on a terminal."""

import json
import os
import signal
import subprocess
import sys
import uuid
from importlib.metadata import EntryPoint
from pathlib import Path

import pulsar
import pulsar.schema
import pytest
from click.testing import CliRunner

from magnetar import cli
from magnetar.cli.tools.common import run
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
    result = magnetar(broker, "consume", topic, "-s", "s", "--json", "--count", str(count))
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
    left = magnetar(broker, "consume", topic, "-s", "s", "--wait", "0.1")
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


def test_a_message_too_large_for_an_entry_is_divided_and_joined(
    broker: RunningBroker, tmp_path: Path
) -> None:
    topic = new_topic()
    large = tmp_path / "large"
    large.write_bytes(b"x" * 6_000_000)
    refused = magnetar(broker, "produce", topic, "-f", str(large))
    assert (refused.returncode, "bytes" in refused.stderr) == (1, True)
    sent = magnetar(broker, "produce", topic, "-f", str(large), "-c")
    assert sent.returncode == 0, sent.stderr
    consumed = magnetar(broker, "consume", topic, "-n", "1", "--json", "-mc", "1", "-ac")
    assert len(json.loads(consumed.stdout)["value"]) == 6_000_000, consumed.stderr
    read = magnetar(broker, "read", topic, "-n", "1", "--json", "-mc", "1")
    assert len(json.loads(read.stdout)["value"]) == 6_000_000, read.stderr


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
        (("consume", "t", "--type", "nope"), "Invalid value for '-t'"),
        (("consume", "t", "-st", "auto_consume"), "-st is not supported"),
        (("consume", "t", "--follow", "--wait", "1"), "either --follow or --wait"),
        (("consume", "t", "-m", "Durable"), "it needs a name: give -s NAME"),
        (("consume", "a/b", "--regex"), "is not a pattern of topics"),
        (("consume", "(", "--regex"), "is not a regular expression"),
        (("produce", "t", "-n", "2"), "-n repeats messages"),
        (("produce", "t", "-f", "/nowhere"), "/nowhere: No such file or directory"),
        (("produce", "t", "-m", "x", "-vs", "avro:{}"), "cannot be encoded as avro"),
        (("produce", "t", "-m", "x", "-vs", "json:{"), "definition of the schema is not JSON"),
        (("produce", "t", "-m", "x", "-vs", "nope"), "json:DEFINITION, got 'nope'"),
        (("produce", "t", "-m", "x", "-ekn", "k"), "messages cannot be encrypted"),
        (("read", "t", "-ac"), "a reader acknowledges nothing"),
        (("read", "t", "-m", "x"), "is not earliest, latest or LEDGER:ENTRY"),
    ],
)
def test_mistakes_are_explained_without_a_traceback(arguments: tuple[str, ...], why: str) -> None:
    result = magnetar(None, *arguments)
    assert result.returncode != 0
    assert why in result.stderr
    assert "Traceback" not in result.stderr


def test_the_first_attempt_to_connect_is_shown() -> None:
    arguments = ("produce", "t", "x", "--url", "pulsar://127.0.0.1:1", "--timeout", "1")
    attempt, last = magnetar(None, *arguments).stderr.splitlines()
    assert attempt.startswith("cannot connect to 127.0.0.1:1: connection refused, nothing listens")
    assert attempt.endswith("; trying again")
    assert last.startswith("Error: ") and "within 1 s: cannot connect to 127.0.0.1:1" in last


def test_the_wrong_port_is_not_tried_again(broker: RunningBroker) -> None:
    url = f"pulsar://127.0.0.1:{broker.http_port}"
    result = magnetar(None, "produce", "t", "x", "--url", url, "--timeout", str(10 * TIMEOUT_S))
    assert result.returncode == 1
    assert result.stderr.startswith(f"Error: 127.0.0.1:{broker.http_port} speaks HTTP: use the ")


def test_messages_by_the_flags_of_pulsar_client(broker: RunningBroker, tmp_path: Path) -> None:
    topic = new_topic()
    file = tmp_path / "whole.bin"
    file.write_bytes(b"of,a\nfile")
    result = magnetar(
        broker, "produce", topic, "-m", "a;b", "-m", "c", "-s", ";", "-f", str(file), "-n", "2",
        "-k", "kk", "-p", "x=1,y=2", "-db", "-r", "0",
    )  # fmt: skip
    assert result.stderr.startswith("8 messages stored")
    found = consumed(broker, topic, 8)
    assert [one["value"] for one in found] == ["a", "b", "c", "of,a\nfile"] * 2
    assert all(one["batch_index"] == -1 for one in found), "-db: each is an entry"
    assert found[0]["key"] == "kk" and found[0]["properties"] == {"x": "1", "y": "2"}


def test_what_consume_shows_and_when_it_stops(broker: RunningBroker) -> None:
    topic = new_topic()
    assert magnetar(broker, "produce", topic, "-m", "first,second").returncode == 0
    options = ("-p", "Earliest", "-m", "NonDurable", "-t", "Exclusive", "-q", "0")
    hidden = magnetar(broker, "consume", topic, "-s", "s", "-n", "2", "--hide-content", *options)
    assert (hidden.stdout, hidden.stderr) == ("", "2 messages\n")
    again = magnetar(broker, "consume", topic, "-s", "s", "-n", "1", "--hex", *options)
    assert "66 69 72 73 74" in again.stdout and again.stdout.endswith(" first\n")
    too_few = magnetar(broker, "consume", topic, "-s", "d", "-n", "3", "--wait", "0.1")
    assert too_few.returncode == 1
    assert "2 messages of 3: no more came within 0.1 s" in too_few.stderr
    rest = magnetar(broker, "consume", topic, "-s", "s", "-p", "latest", "--wait", "0.1")
    assert rest.stderr == "0 messages\n", "the subscription that was not durable is gone"


def test_consume_by_pattern(broker: RunningBroker) -> None:
    prefix = f"p-{uuid.uuid4().hex[:10]}"
    for name in ("a", "b", "other"):
        assert magnetar(broker, "produce", f"{prefix}-{name}", "-m", name).returncode == 0
    pattern = f"persistent://public/default/{prefix}-[ab]"
    result = magnetar(broker, "consume", "--regex", pattern, "-s", "s", "-n", "2", "--json")
    assert {json.loads(line)["value"] for line in result.stdout.splitlines()} == {"a", "b"}
    none = magnetar(broker, "consume", "--regex", f"{prefix}-x", "-s", "s")
    assert none.returncode == 1 and "no topic matches" in none.stderr


def test_read_leaves_nothing_behind(broker: RunningBroker) -> None:
    topic = new_topic()
    assert magnetar(broker, "produce", topic, "-m", "a,b,c", "-db").returncode == 0
    shown = magnetar(broker, "read", topic, "-n", "3", "--json")
    a, b, _ = (json.loads(line) for line in shown.stdout.splitlines())
    assert (a["value"], b["value"]) == ("a", "b")
    middle = f"{b['ledger']}:{b['entry']}"
    after = magnetar(broker, "read", topic, "-m", middle, "-n", "1")
    assert [line.split()[-1] for line in after.stdout.splitlines()] == ["c"]
    with_it = magnetar(broker, "read", topic, "-m", middle, "-i", "-n", "2")
    assert [line.split()[-1] for line in with_it.stdout.splitlines()] == ["b", "c"]
    end = magnetar(broker, "read", topic, "-m", "latest", "--wait", "0.1")
    assert (end.returncode, end.stderr) == (0, "0 messages\n")


def test_a_schema_is_registered_and_named_by_every_message(broker: RunningBroker) -> None:
    topic = new_topic()
    definition = (
        '{"type":"record","name":"R","fields":[{"name":"n","type":["null","int"],"default":null}]}'
    )
    sent = magnetar(broker, "produce", topic, '{"n": 7}', "-vs", f"json:{definition}")
    assert sent.returncode == 0, sent.stderr
    client = pulsar.Client(broker.service_url)

    class R(pulsar.schema.Record):
        n = pulsar.schema.Integer()

    consumer = client.subscribe(
        topic, "s", schema=pulsar.schema.JsonSchema(R),
        initial_position=pulsar.InitialPosition.Earliest,
    )  # fmt: skip
    assert consumer.receive(TIMEOUT_S * 1000).value().n == 7
    client.close()
    refused = magnetar(broker, "produce", topic, "x", "-vs", "string")
    assert refused.returncode == 1
    assert "IncompatibleSchema" in refused.stderr


def started(broker: RunningBroker, disposition: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start the installed command with SIGINT at SIG_DFL, as terminals do, or at SIG_IGN.

    The command would otherwise inherit it from this process, where SIGINT is ignored if a shell
    without job control started the tests in the background.
    """
    program = (
        f"import os, signal, sys; signal.signal(signal.SIGINT, signal.{disposition}); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = str(Path(sys.executable).with_name("magnetar"))
    return subprocess.Popen(
        [sys.executable, "-c", program, command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"MAGNETAR_URL": broker.service_url},
    )


def test_an_interrupted_command_ends_with_the_code_of_the_signal(broker: RunningBroker) -> None:
    topic = new_topic()
    assert magnetar(broker, "produce", topic, "-m", "seen").returncode == 0
    process = started(broker, "SIG_DFL", "consume", topic, "-n", "0")
    assert process.stdout is not None
    assert process.stdout.readline().endswith(" seen\n")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, "Traceback" in errors) == (130, False)


def test_a_command_in_the_background_of_a_shell_ignores_interrupts(broker: RunningBroker) -> None:
    topic = new_topic()
    assert magnetar(broker, "produce", topic, "-m", "seen").returncode == 0
    process = started(broker, "SIG_IGN", "consume", topic, "-n", "2")
    assert process.stdout is not None
    assert process.stdout.readline().endswith(" seen\n")
    process.send_signal(signal.SIGINT)
    assert magnetar(broker, "produce", topic, "-m", "after").returncode == 0
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, output.endswith(" after\n")) == (0, True)


def test_an_interrupt_wakes_a_command_that_waits() -> None:
    # Without a wake-up descriptor the loop may start to wait just after a signal came.
    descriptors = []

    async def work() -> None:
        descriptors.append(signal.set_wakeup_fd(-1))
        signal.set_wakeup_fd(descriptors[0])

    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run(work())
    finally:
        signal.signal(signal.SIGINT, former)
    assert descriptors[0] >= 0


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


def test_the_list_of_commands_says_what_each_does() -> None:
    for name in cli.OWN_COMMANDS:
        entry_point = cli.OWN[name]
        assert entry_point.load().name == name
    listed = CliRunner().invoke(cli.main, ["--help"]).output
    for _, summary in cli.OWN_COMMANDS.values():
        assert summary in listed
