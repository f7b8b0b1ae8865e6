"""What the image contains and may do, as its files say; what the audit of it reports."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

audit, build_hook = import_module("scripts.audit"), import_module("scripts.build_hook")
ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE = (DOCKER / "compose.yaml").read_text()
LOCKS = ("requirements.txt", "build-requirements.txt")


def pinned(name: str) -> dict[str, str]:
    """Package and version of each line; every one has hashes."""
    found = {}
    for entry in re.split(r"\n(?=\S)", (DOCKER / name).read_text().strip()):
        if entry.startswith("#"):
            continue
        head = re.match(r"([-\w.]+)(?:\[[\w,]+\])?==([\w.]+)", entry)
        assert head is not None, entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
        found[head[1].lower().replace("_", "-").replace(".", "-")] = head[2]
    return found


def test_every_dependency_is_locked_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = pinned("requirements.txt")
    for wanted in project["dependencies"]:
        name = re.match(r"[-\w]+", wanted)
        assert name is not None and name[0].lower() in locked, wanted


def test_what_builds_the_wheel_is_locked_too() -> None:
    wanted = ["hatchling", *build_hook.COMPILERS]
    names = [re.split(r"[\[<>=]", one)[0] for one in wanted]
    assert set(names) <= pinned("build-requirements.txt").keys()
    assert pinned("build-requirements.txt")["mypy"].startswith("2.4.")


def test_the_image_installs_nothing_else() -> None:
    commands = DOCKERFILE.replace("\\\n", " ")
    installs = re.findall(r"pip (?:install|download|wheel)[^&\n]*", commands)
    assert len(installs) == 5
    for command in installs:
        assert "--require-hashes" in command or "--no-deps" in command, command
    for name in LOCKS:
        assert f"!docker/{name}" in (DOCKER / "Dockerfile.dockerignore").read_text()


def test_the_image_runs_as_an_ordinary_user_who_alone_reads_the_data() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    users = re.findall(r"^USER (\S+)", last, re.MULTILINE)
    assert users == ["magnetar"]
    assert "--uid 10001" in last and "-m 0700 /data" in last
    assert last.index("USER magnetar") < last.index("ENTRYPOINT")


def test_the_container_can_write_nothing_but_its_data() -> None:
    broker = COMPOSE.partition("\n  broker:")[2].partition("\n  prometheus:")[0]
    assert re.search(r"^    read_only: true$", broker, re.MULTILINE)
    assert re.search(r"^    cap_drop: \[ALL\]$", broker, re.MULTILINE)
    assert 'security_opt: ["no-new-privileges:true"]' in broker
    assert "privileged:" not in broker and "docker.sock" not in COMPOSE
    for port in re.findall(r'^      - "(\S+:\d+)"$', COMPOSE, re.MULTILINE):
        assert port.startswith("127.0.0.1:"), port


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0),
        ([{"name": "a", "version": "1", "vulns": [{"id": "X"}]}], 1),
        ([{"name": "a", "skip_reason": "not found"}], audit.UNKNOWN),
        ([{"name": "a", "vulns": [{"id": "X"}]}, {"name": "b", "skip_reason": "?"}], 1),
    ],
)
def test_an_audit_that_checked_nothing_is_no_success(
    found: list[dict[str, object]], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.verdict(found) == code
    assert ("NOT CHECKED" in capsys.readouterr().out) == (code == audit.UNKNOWN)


def test_an_audit_without_its_tool_or_network_says_so() -> None:
    made = subprocess.run(
        [sys.executable, "-S", ROOT / "scripts" / "audit.py"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == audit.UNKNOWN and "NOT CHECKED" in made.stdout
