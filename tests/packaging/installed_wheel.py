"""What is published, installed as users install it; `make test-package` runs it.

Takes minutes and loads the dependencies from the package index, therefore no part of `make test`.
"""

import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOT: dict[str, tuple[str, ...]] = runpy.run_path(str(ROOT / "scripts/compile.py"))["HOT"]
BUILD_SECONDS = 1200
COMMAND_SECONDS = 300
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
"""The environment without PYTHONPATH and the like: nothing of the checkout may leak in."""

pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS)


@dataclass
class Built:
    """A source distribution of the checkout, and the wheel built from it."""

    sdist: Path
    wheel: Path
    log: str


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    target = tmp_path_factory.mktemp("dist")
    result = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(target), str(ROOT)],
        env=CLEAN | {"MAGNETAR_BUILD": "compiled"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return Built(sdist, wheel, result.stdout)


@dataclass
class Installation:
    """The wheel in an environment with its dependencies and nothing else."""

    bin: Path
    directory: Path
    """Commands run here, outside of the checkout."""

    def run(self, *command: str, status: int = 0) -> str:
        """A program of the environment; returns what it printed."""
        result = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.directory,
            env=CLEAN,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert result.returncode == status, result.stdout + result.stderr
        assert "Traceback" not in result.stderr
        return result.stdout if status == 0 else result.stderr

    def python(self, program: str) -> str:
        return self.run("python", "-c", program)


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    place = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True, env=CLEAN)
    subprocess.run(
        [str(place / "venv/bin/python"), "-m", "pip", "install", "--quiet", str(built.wheel)],
        check=True,
        env=CLEAN,
        timeout=BUILD_SECONDS,
    )
    directory = place / "elsewhere"
    directory.mkdir()
    return Installation(place / "venv/bin", directory)


@pytest.fixture(scope="session")
def broker(installed: Installation) -> Iterator[tuple[str, str]]:
    """`magnetar standalone` on free ports: its banner and service URL; it ends well."""
    with (installed.directory / "log").open("w") as log:
        process = subprocess.Popen(
            [
                str(installed.bin / "magnetar"), "standalone",
                "--data-dir", "data", "--port", "0", "--http-port", "0",
            ],
            cwd=installed.directory,
            env=CLEAN,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )  # fmt: skip
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("  durability"):
            break
    banner = "".join(lines)
    url = re.search(r"^  clients +(\S+)$", banner, re.MULTILINE)
    try:
        assert url is not None, banner + (installed.directory / "log").read_text()
        yield banner, url[1]
    finally:
        process.terminate()
        process.communicate(timeout=COMMAND_SECONDS)
    assert process.returncode == 0
    verdict = json.loads(installed.run("magnetar", "verify", "data", "--json"))
    assert verdict["damaged"] is False
    log_text = (installed.directory / "log").read_text()
    assert not re.search("WARNING|ERROR|Traceback", log_text), log_text


def test_the_source_distribution_has_no_machine_code(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc"))]
    assert {"scripts/build_hook.py", "scripts/compile.py", "LICENSE", "PKG-INFO"} <= names


def test_the_wheel_has_every_hot_module_compiled_and_every_source(built: Built) -> None:
    assert f"compiled, {sum(map(len, HOT.values())) + 1} extension modules" in built.log
    assert "none-any" not in built.wheel.name
    names = ZipFile(built.wheel).namelist()
    for directory, modules in HOT.items():
        package = directory.partition("/")[2]
        for module in modules:
            assert f"{package}/{module}.py" in names
            assert [n for n in names if n.startswith(f"{package}/{module}.") and n.endswith(".so")]


def test_everything_is_imported_from_the_installation(installed: Installation) -> None:
    found = installed.python(
        "import sys, magnetar, magnetar_broker.dispatch.shared\n"
        "import magnetar_broker.server.processes.daemon\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('magnetar')),"
        " *sys.path, sep='\\n')"
    ).split()
    assert len(found) > 100
    assert not [path for path in found if path.startswith(str(ROOT))]
    assert [path for path in found if "/dispatch/shared." in path and path.endswith(".so")]


def test_the_dependencies_are_complete_and_no_more(installed: Installation) -> None:
    installed.run("python", "-m", "pip", "check")
    compilers = "('mypy', 'mypy_extensions', 'librt', 'setuptools')"
    found = f"from importlib.util import find_spec; print([n for n in {compilers} if find_spec(n)])"
    left = {"3.11": "['setuptools']"}.get(f"{sys.version_info[0]}.{sys.version_info[1]}", "[]")
    assert installed.python(found).strip() == left, "venv itself installs setuptools before 3.12"


def test_the_version_names_the_form(installed: Installation) -> None:
    assert installed.run("magnetar", "--version").endswith(" (compiled)\n")


def test_a_broker_stores_and_delivers(installed: Installation, broker: tuple[str, str]) -> None:
    banner, url = broker
    assert banner.splitlines()[0].endswith("is ready, compiled")
    lines = ("one", "two", "three")
    installed.run("magnetar", "produce", "t", *lines, "--url", url, "--compression", "zstd")
    read = installed.run(
        "magnetar", "consume", "t", "--url", url, "--subscription", "s", "--count", "3", "--json"
    )
    assert tuple(json.loads(line)["value"] for line in read.splitlines()) == lines


def test_spark_without_its_extra_names_the_remedy(installed: Installation) -> None:
    result = subprocess.run(
        [str(installed.bin / "python"), "-c", "import pyspark_magnetar"],
        cwd=installed.directory,
        env=CLEAN,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert result.returncode == 1
    assert "pip install 'magnetar[spark]'" in result.stderr.splitlines()[-1]


def test_a_data_directory_in_use_is_refused_in_one_sentence(
    installed: Installation, broker: tuple[str, str]
) -> None:
    refusal = installed.run("magnetar", "verify", "data", status=2)
    assert "in use by process" in refusal
