"""The list of modules to compile fits the sources; compiling them takes too long for each run."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts/compile.py"))
check: Callable[[str], None] = COMPILE["check"]


def test_every_hot_module_exists_and_keeps_the_rules_for_coroutines() -> None:
    sources = [f"{directory}/{n}.py" for directory, names in COMPILE["HOT"].items() for n in names]
    assert len(sources) > 30
    for source in sources:
        check(source)


@pytest.mark.parametrize(
    "body",
    [
        "try:\n        await f()\n    finally:\n        g()",
        "try:\n        await f()\n    except* OSError:\n        g()",
        "with f():\n        await g()",
        "async with f():\n        g()",
        "for a in f():\n        with a:\n            await g()",
    ],
)
def test_a_coroutine_that_handles_exceptions_is_not_compilable(tmp_path: Path, body: str) -> None:
    source = tmp_path / "module.py"
    source.write_text(f"async def one():\n    {body}\n")
    with pytest.raises(COMPILE["NotCompilable"], match="the coroutine one handles exceptions"):
        check(str(source))
    source.write_text(f"def one():\n    {body.replace('await ', '').replace('async ', '')}\n")
    check(str(source))
