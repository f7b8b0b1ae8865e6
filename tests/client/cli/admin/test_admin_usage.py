"""How `magnetar admin` is used: flags, wrong words, refusals, output, exit codes."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import magnetar
from admin_command import TIMEOUT_S, Place, admin, answered, done, installed
from magnetar.cli import main
from magnetar.cli.admin.commands import GROUPS
from magnetar.cli.admin.groups import letters
from ports import free_ports
from running_broker import RunningBroker


def offline(*words: str, **environment: str) -> tuple[int, str]:
    """The exit code and output of a command that needs no broker."""
    result = CliRunner(env=environment).invoke(main, ["admin", *words], prog_name="magnetar")
    return result.exit_code, result.output


# Wrong words ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("topcis list", "did you mean topics"),
        ("topics statz", "did you mean stats?"),
        ("namespaces set-retentoin a/b", "did you mean set-retention or"),
        ("topics xyzzy", "see magnetar admin topics -h"),
        ("namespaces create", "Missing argument 'NAMESPACE'"),
        ("namespaces create public", "'public' is not a namespace: expected tenant/namespace"),
        ("topics create a/b/c/d/e", "'a/b/c/d/e' is not a topic"),
        ("topics create-partitioned-topic t -p many", "'many' is not a whole number"),
        ("namespaces set-retention a/b -t 3x -s 1G", "'3x' is not a time, such as"),
        ("namespaces set-retention a/b -t 3h -s 1X", "'1X' is not a number of bytes"),
        ("namespaces set-retention a/b -t 30 -s 1G", "30 is too little: the broker keeps it"),
        ("namespaces set-retention a/b -t 3h", "Missing option"),
        ("namespaces set-deduplication a/b", "give either --enable or --disable"),
        ("namespaces set-deduplication a/b -e -d", "give either --enable or --disable"),
        ("namespaces set-auto-subscription-creation a/b -e -d", "not both"),
        ("namespaces set-subscription-types-enabled a/b -t Shared,Odd", "'Odd' is not one of"),
        ("namespaces set-properties a/b -p color", "'color' is not NAME=VALUE"),
        ("namespaces topics a/b -m some", "is not one of persistent, non_persistent, all"),
        ("namespaces unload a/b -d one:8080", "--destinationBroker needs --bundle"),
        ("namespaces split-bundle a/b", "give either --bundle or --bundle-type"),
        ("namespaces split-bundle a/b -b x -sb 0x1,y", "expected hashes such as"),
        ("topics reset-cursor t -s s", "give either --time or --messageId"),
        ("topics reset-cursor t -s s -m 12", "'12' is not earliest, latest or a message"),
        ("topics expire-messages t -s s", "give either --expireTime or --position"),
        ("topics update-subscription-properties t -s s", "give either --property or --clear"),
        ("topics get-message-id t -d yesterday", "'yesterday' is not a time such as"),
        ("schemas get t -v 1 -a", "not both"),
        ("schemas upload t -f /does/not/exist", "/does/not/exist: No such file"),
        ("--admin-url localhost:8080 tenants list", "expected http://HOST:PORT"),
        ("--admin-url http://:8080 tenants list", "is not HOST:PORT"),
        ("--admin-url http://host:99999 tenants list", "is not HOST:PORT"),
        ("--auth-plugin kerberos tenants list", "kerberos is not known: expected token"),
        ("--auth-plugin token tenants list", "--auth-params has no token"),
        ("--auth-plugin basic --auth-params userId:x tenants list", "expected {"),
        ("--auth-plugin tls tenants list", "expected tlsCertFile:PATH"),
        ("--client-conf /does/not/exist tenants list", "/does/not/exist: No such file"),
    ],
)
def test_wrong_usage(words: str, printed: str) -> None:
    exit_code, output = offline(*words.split())
    assert exit_code == 2, output
    assert printed in output


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_explains_itself(group: str) -> None:
    exit_code, output = offline(group, "--help")
    assert exit_code == 0
    assert GROUPS[group] in output


def test_a_command_names_its_request() -> None:
    exit_code, output = offline("tenants", "create", "-h")
    assert exit_code == 0
    assert "magnetar admin tenants create [OPTIONS] TENANT" in output
    assert "PUT /admin/v2/tenants/{tenant}" in output


# What the broker answers ------------------------------------------------------------------


def test_a_refusal_has_the_reason_and_the_status(broker: RunningBroker) -> None:
    result = admin(broker, "tenants", "get", "nobody")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert "nobody" in result.stderr
    assert result.stderr.endswith("(HTTP 404)\n")


def test_no_broker() -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    exit_code, output = offline("--admin-url", url, "tenants", "list")
    assert exit_code == 3
    assert f"cannot connect to {url}" in output
    assert "--admin-url" in output


def test_no_answer_in_time(make_broker: Callable[..., RunningBroker]) -> None:
    broker = make_broker(magnetarWorkers="1")
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        result = admin(broker, "--request-timeout", "0.2", "tenants", "list")
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert result.exit_code == 3, result.output
    assert "did not answer within 0.2 s; whether it acted is unknown" in result.output


def test_the_next_host_if_one_does_not_answer(broker: RunningBroker) -> None:
    (port,) = free_ports(1)
    hosts = f"http://127.0.0.1:{port},127.0.0.1:{broker.http_port}"
    exit_code, output = offline("--admin-url", hosts, "tenants", "list")
    assert (exit_code, "public" in output) == (0, True)


def test_a_port_that_is_not_http(broker: RunningBroker) -> None:
    url = f"http://127.0.0.1:{broker.port}"
    exit_code, output = offline("--admin-url", url, "tenants", "list")
    assert exit_code == 3
    assert f"{url} closed the connection" in output


# Output -----------------------------------------------------------------------------------


def test_lists_and_tables(broker: RunningBroker) -> None:
    place = Place(broker)
    assert done(broker, "namespaces", "list", place["tenant"]) == ""
    assert place["namespace"]
    assert done(broker, "namespaces", "list", place["tenant"]) == f"{place['namespace']}\n"
    done(broker, "tenants", "update", place["tenant"], "-r", "one,two")
    assert done(broker, "tenants", "get", place["tenant"]) == (
        "adminRoles       one, two\nallowedClusters  standalone\n"
    )


def test_json_before_and_behind_the_command(broker: RunningBroker) -> None:
    tenant = Place(broker)["tenant"]
    expected = {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}
    assert answered(broker, "tenants", "get", tenant) == expected
    assert json.loads(done(broker, "tenants", "get", tenant, "--json")) == expected


def test_what_is_not_given_stays(broker: RunningBroker) -> None:
    tenant = Place(broker)["tenant"]
    done(broker, "tenants", "update", tenant, "-c", "standalone")
    assert answered(broker, "tenants", "get", tenant)["adminRoles"] == ["boss"]


def test_a_question_is_answered_with_no(broker: RunningBroker) -> None:
    place = Place(broker)
    result = admin(broker, "namespaces", "clear-backlog", place["namespace"], stdin="n\n")
    assert result.exit_code == 1
    assert "Aborted" in result.output


def test_the_value_of_a_property_may_have_any_text(broker: RunningBroker) -> None:
    place = Place(broker)
    for value in ("a/b c?d&e", "5", "ü"):
        done(broker, "namespaces", "set-property", place["namespace"], "-k", "k", "-v", value)
        get = ("namespaces", "get-property", place["namespace"], "-k", "k")
        assert done(broker, *get) == f"{value}\n"
        assert answered(broker, *get) == value


def test_a_schema_as_a_bare_avro_record(broker: RunningBroker, tmp_path: Path) -> None:
    topic = Place(broker)["topic"]
    file = tmp_path / "order.avsc"
    file.write_text('{"type": "record", "name": "Order", "fields": []}')
    done(broker, "schemas", "upload", topic, "-f", str(file))
    found = answered(broker, "schemas", "get", topic)
    assert (found["type"], json.loads(found["data"])["name"]) == ("AVRO", "Order")
    assert len(answered(broker, "schemas", "get", topic, "-a")) == 1
    assert answered(broker, "schemas", "get", topic, "-v", "0") == found


def test_messages_of_a_batch_are_shown_one_by_one(broker: RunningBroker) -> None:
    topic = Place(broker)["written"]
    peek = ("subscriptions", "peek-messages", topic, "sub")
    one, two, three = answered(broker, *peek, "-n", "9")
    assert (one["value"], one["key"], one["properties"]) == ("one", "k", {"a": "b"})
    assert (two["value"], three["value"]) == ("two", "three")
    assert three["messageId"] == f"{two['messageId'].removesuffix(':0')}:1"
    assert one["publishTime"].endswith("Z")
    assert [message["value"] for message in answered(broker, *peek, "-n", "2")] == ["one", "two"]
    last = answered(broker, "topics", "last-message-id", topic)
    ids = ("-l", str(last["ledgerId"]), "-e", str(last["entryId"]))
    assert answered(broker, "topics", "get-message-by-id", topic, *ids) == [two, three]
    assert answered(broker, "topics", "examine-messages", topic) == [two, three]


def test_messages_are_found_page_by_page(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "AT_ONCE", 1)
    topic = Place(broker)["written"]
    search = ("topics", "search", topic)
    assert [one["id"] for one in answered(broker, *search)] == [
        one["messageId"] for one in answered(broker, "topics", "peek-messages", topic, "-s", "sub",
                                             "-n", "3")
    ]  # fmt: skip
    (found,) = answered(broker, *search, "-k", "k")
    assert found["properties"] == {"a": "b"}
    assert answered(broker, *search, "-p", "a=other") == []
    some = admin(broker, *search, "-n", "2")
    assert some.stdout.count("message ") == 2
    (place,) = re.findall(r"--from (\S+)", some.stderr)
    rest = admin(broker, *search, "--from", place)
    assert "value        three" in rest.stdout and rest.stdout.count("message ") == 1
    assert rest.stderr == ""


def test_dead_letters_are_listed_shown_and_replayed(broker: RunningBroker) -> None:
    topic = Place(broker)["topic"]

    async def fail() -> None:
        async with magnetar.connect(broker.service_url) as client:
            producer = await client.producer(f"{topic}-sub-DLQ")
            for number in range(3):
                await producer.send(b"%d" % number, properties={"odd": str(number % 2)})

    asyncio.run(fail())
    of = (topic, "sub")
    (listed,) = answered(broker, "subscriptions", "dead-letters", *of)
    assert (listed["topic"], listed["messages"]) == (f"{topic}-sub-DLQ", 3)
    shown = done(broker, "subscriptions", "browse-dead-letters", *of, "-p", "odd=1")
    assert "value        1" in shown and shown.count("message ") == 1
    replay = ("subscriptions", "replay-dead-letters", *of, "-p", "odd=0")
    counted = answered(broker, *replay, "--dry-run")
    assert (counted["matched"], counted["replayed"], counted["dryRun"]) == (2, 0, True)
    assert answered(broker, *replay, "-n", "1", "-r", "10")["replayed"] == 1
    assert answered(broker, "topics", "stats", topic)["msgInCounter"] == 1
    refused = admin(broker, "topics", "browse-dead-letters", topic, "-s", "sub", "--kind", "RETRY")
    assert (refused.exit_code, "no RETRY topic" in refused.stderr) == (1, True)


def test_no_message_to_peek_at(broker: RunningBroker) -> None:
    result = admin(broker, "subscriptions", "peek-messages", Place(broker)["topic"], "sub")
    assert (result.exit_code, "HTTP 404" in result.stderr) == (1, True)


def test_names_with_special_characters(broker: RunningBroker) -> None:
    place = Place(broker)
    topic = f"persistent://{place['namespace']}/a b+c%d"
    done(broker, "topics", "create", topic)
    assert done(broker, "topics", "list", place["namespace"]) == f"{topic}\n"
    done(broker, "topics", "create-subscription", topic, "-s", "x y/z")
    assert done(broker, "subscriptions", "list", topic) == "x y/z\n"
    done(broker, "subscriptions", "delete", topic, "x y/z")
    done(broker, "topics", "delete", topic)


# As a program -----------------------------------------------------------------------------


def test_the_installed_command(broker: RunningBroker, tmp_path: Path) -> None:
    conf = tmp_path / "client.conf"
    conf.write_text(f"# of a test\nwebServiceUrl = {broker.http_url}\n")
    from_file = installed("admin", "tenants", "list", PULSAR_CLIENT_CONF=str(conf))
    assert (from_file.returncode, "public" in from_file.stdout) == (0, True), from_file.stderr
    flag_wins = installed("admin", "--admin-url", "http://127.0.0.1:1", "tenants", "list",
                          PULSAR_CLIENT_CONF=str(conf))  # fmt: skip
    assert (flag_wins.returncode, flag_wins.stdout) == (3, "")
    refused = installed("admin", "tenants", "get", "nobody", MAGNETAR_ADMIN_URL=broker.http_url)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Traceback" not in refused.stderr


def test_help_and_wrong_words_need_no_http() -> None:
    """These are what is imported for a start."""
    program = (
        "import sys; from magnetar.cli import main\n"
        "try: main(['admin', 'topics', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'asyncio', 'http.client', 'ssl', 'google.protobuf'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_MAGNETAR_COMPLETE" in result.output


def test_what_a_shell_gets_to_complete() -> None:
    words = {"COMP_WORDS": "magnetar admin namespaces set-rete", "COMP_CWORD": "3"}
    found = installed(_MAGNETAR_COMPLETE="bash_complete", **words)
    assert found.stdout == "plain,set-retention\n"
