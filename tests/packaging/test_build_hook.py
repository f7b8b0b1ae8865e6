"""Which form of wheel is built: chosen by MAGNETAR_BUILD and by what the machine can do.

The compiled wheel takes a minute: `make test-package`.
"""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]
NO_COMPILER = "false"
"""A command that fails, in the place of the C compiler."""


def build(
    target: Path, *options: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
    """Build a wheel as pip does, with what is installed here; and what came of it."""
    inherited = {k: v for k, v in os.environ.items() if k != "MAGNETAR_BUILD"}
    result = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target), *options],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return result, list(target.glob("*.whl"))


def test_a_pure_wheel_on_request(tmp_path: Path) -> None:
    result, (wheel,) = build(tmp_path, MAGNETAR_BUILD="pure")
    assert "pure Python, as requested" in result.stdout + result.stderr
    assert wheel.name.endswith("-py3-none-any.whl")
    names = ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith(".so")]
    sources = {
        path.relative_to(ROOT / top).as_posix()
        for top in ("proto", "storage", "broker", "client", "spark_connector")
        for path in (ROOT / top).rglob("*.py")
    }
    assert sources <= set(names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "magnetar", "magnetar_broker", "magnetar_proto", "magnetar_storage", "pyspark_magnetar",
    }  # fmt: skip


def test_without_a_compiler_the_wheel_is_pure_and_the_build_names_the_reason(
    tmp_path: Path,
) -> None:
    result, (wheel,) = build(tmp_path, CC=NO_COMPILER)
    assert "pure Python, for lack of a working C compiler" in result.stdout + result.stderr
    assert wheel.name.endswith("-py3-none-any.whl")


def test_a_required_compilation_fails_without_a_compiler(tmp_path: Path) -> None:
    result, wheels = build(tmp_path, CC=NO_COMPILER, MAGNETAR_BUILD="compiled")
    assert (result.returncode != 0, wheels) == (True, [])
    assert "MAGNETAR_BUILD=compiled, but no module can be compiled" in result.stderr


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    result, wheels = build(tmp_path, MAGNETAR_BUILD="fast")
    assert (result.returncode != 0, wheels) == (True, [])
    assert "MAGNETAR_BUILD=fast: expected compiled or pure, or unset" in result.stderr
