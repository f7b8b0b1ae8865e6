"""The ten minutes of docs/tiered-storage.md, with its settings and its commands."""

import re
import shlex
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import object_servers
from admin_command import installed
from admin_http import Admin
from fakes.waiting import until
from running_broker import RunningBroker

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tiered-storage.md"
BLOCK = re.compile(r"^```(sh)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
READ_BYTES = re.compile(r"^brk_ledgeroffloader_read_bytes{.*} [1-9]", re.MULTILINE)
ENDPOINT, BUCKET = "http://127.0.0.1:5555", "magnetar"


@pytest.fixture
def endpoint() -> Iterator[str]:
    with object_servers.moto() as endpoint:
        request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request).close()
        yield endpoint


def blocks() -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of the blocks of the section."""
    section = PAGE.read_text().partition("## Ten minutes")[2].partition("\n## ")[0]
    yield from BLOCK.findall(section)


def settings_at(endpoint: str) -> dict[str, str]:
    """Return the settings of the page, without its pauses."""
    (text,) = (text for kind, text in blocks() if not kind)
    lines = text.replace(ENDPOINT, endpoint).splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert {"retentionCheckIntervalInSeconds", "managedLedgerOffloadDeletionLagMs"} <= set(found)
    return found | {
        "retentionCheckIntervalInSeconds": "1", "managedLedgerOffloadDeletionLagMs": "0",
    }  # fmt: skip


def objects_at(endpoint: str) -> int:
    with urllib.request.urlopen(f"{endpoint}/{BUCKET}?list-type=2") as answer:
        return int(answer.read().count(b"<Key>"))


async def test_the_commands_of_the_page(
    make_broker: Callable[..., RunningBroker], endpoint: str, tmp_path: Path
) -> None:
    settings = settings_at(endpoint)
    conf = tmp_path / "tiered.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    broker = make_broker(magnetarWorkers="1", **settings)
    where = {"MAGNETAR_URL": broker.service_url, "MAGNETAR_ADMIN_URL": broker.http_url}

    def is_offloaded() -> bool:
        path = "persistent/public/default/sensors/internalStats"
        ledgers = Admin(broker).get(path).json["ledgers"]
        here = list(broker.data_dir.rglob("*.seg"))
        return len(here) <= 1 and all(one["offloaded"] for one in ledgers if one["size"])

    printed: dict[str, str] = {}
    for line in "".join(text for kind, text in blocks() if kind).splitlines():
        program, *words = shlex.split(line, comments=True)
        if program == "sleep":
            await until(is_offloaded, "the closed ledgers are only in the bucket")
        elif program == "kill":
            broker.kill()
            broker.start()
        elif program == "magnetar" and words[0] not in ("standalone", "doctor"):
            done = installed(*words, **where)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            printed[" ".join(words[:3])] = done.stdout + done.stderr
            if words[0] == "read":
                assert READ_BYTES.search(broker.metrics), "the messages came from the bucket"
    assert "true" in printed["admin topics stats-internal"]
    assert "20000 messages" in printed["read sensors -n"]
    assert "SUCCESS" in printed["admin topics offload-status"]
    assert objects_at(endpoint) == 0
    checked = installed("doctor", "--conf", str(conf), "--data-dir", str(tmp_path / "none"))
    assert f"ok    offload: s3://{BUCKET}/broker-1?endpoint={endpoint}" in checked.stdout
