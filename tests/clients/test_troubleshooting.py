"""The commands of docs/troubleshooting.md print what the page shows."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import magnetar.sync
from magnetar.admin.client import AdminClient
from magnetar.admin.settings import AdminSettings
from ports import free_ports
from running_broker import RunningBroker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"
HANGS_SECONDS = 300
SPACES = re.compile(r"[ \t]+")
TOPICS = "/admin/v2/persistent/public/default"


def shown() -> list[tuple[str, str]]:
    """Return every command of the page's console blocks, with the output below it."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    pairs = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.MULTILINE)
    return [(command, output) for command, output in pairs]


def matches(pattern: str, printed: str) -> bool:
    """Whether a page shows this output: `...` is any text or, alone on a line, any lines."""
    expression = ""
    for line in pattern.splitlines():
        plain = SPACES.sub(" ", line.strip())
        parts = (re.escape(part.strip()) for part in plain.split("..."))
        expression += r"(?:.*\n)*?" if plain == "..." else " ?.*?".join(parts) + r"\n"
    lines = (SPACES.sub(" ", line.strip()) for line in printed.strip().splitlines())
    return re.fullmatch(expression, "".join(f"{line}\n" for line in lines if line)) is not None


@pytest.mark.parametrize(
    ("pattern", "printed", "result"),
    [
        ("a ... d\n", "a b c d", True),
        ("a ... d\n", "a b c e", False),
        ("...\nb\n...\n", "a\n\nb", True),
        ("...\nb\n", "a\nb\nc", False),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_what_a_page_shows_of_an_output(pattern: str, printed: str, result: bool) -> None:
    assert matches(pattern, printed) is result


class Reader:
    """Somebody who reads the page and enters its commands."""

    def __init__(self, broker: RunningBroker, folder: Path) -> None:
        closed, other, other_http = map(str, free_ports(3))
        self._actual = {
            "6650": str(broker.port),
            "8080": str(broker.http_port),
            "7650": closed,
            "6651": other,
            "8081": other_http,
            "/var/lib/magnetar": str(broker.data_dir),
            "/tmp/other": str(folder / "other"),
        }
        self._environment = os.environ | {
            "MAGNETAR_URL": broker.service_url,
            "MAGNETAR_ADMIN_URL": broker.http_url,
        }

    def run(self, command: str) -> str:
        """Return what a command prints, with the addresses and folders of the page."""
        written = re.compile("|".join(self._actual))
        program, *arguments = shlex.split(
            written.sub(lambda found: self._actual[found[0]], command)
        )
        done = subprocess.run(
            [Path(sys.executable).with_name(program), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
            timeout=HANGS_SECONDS,
            check=False,
        )
        printed = done.stdout
        for documented, actual in self._actual.items():
            printed = printed.replace(actual, documented)
        return printed


def prepare(client: magnetar.sync.Client, admin: AdminClient) -> None:
    """Bring about the symptoms that the page's commands look at."""
    client.subscribe("orders", "billing").close()
    client.producer("orders").send_batch([b"1", b"2", b"3"])
    client.subscribe("limited", "slow").close()
    client.producer("limited").send_batch([b"." * 1000] * 50)
    # Below all ports of tests: a port in what is printed is replaced by the one of the page.
    quota = {"limitSize": 9_000, "policy": "producer_exception"}
    admin.post(f"{TOPICS}/limited/backlogQuota", quota)
    work = client.subscribe("holes", "work", type="shared")
    client.producer("holes", batching=None).send_batch([b"1", b"2", b"3"])
    received = [work.receive(timeout_s=HANGS_SECONDS) for _ in range(3)]
    work.ack([received[0], received[2]])
    work.flush()
    client.subscribe("mails", "careful", type="shared").close()
    client.producer("mails-careful-DLQ").send(b"poison")
    admin.put(f"{TOPICS}/parts/partitions", 2)


def test_the_commands_print_what_the_page_shows(
    make_broker: Callable[..., RunningBroker], tmp_path: Path
) -> None:
    broker = make_broker(magnetarWorkers="1")
    reader = Reader(broker, tmp_path)
    with (
        magnetar.sync.connect(broker.service_url) as client,
        AdminClient(AdminSettings(broker.http_url)) as admin,
    ):
        prepare(client, admin)
        for command, output in shown():
            printed = reader.run(command)
            assert matches(output, printed), f"$ {command}\n{printed}"
