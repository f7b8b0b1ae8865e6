"""The commands that run tests leave none out: Makefile, .ci/run and tests/marks.py agree."""

import re
from pathlib import Path

import pytest

import marks

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PART = re.compile(r"^PART_([a-z]+) := (.*)$", re.MULTILINE)


def makefile() -> str:
    return (ROOT / "Makefile").read_text()


def test_every_test_is_in_one_part() -> None:
    parts = dict(PART.findall(makefile()))
    assert parts.pop("workers")
    named = " ".join(parts.values()).split()
    assert sorted(named) == sorted(set(named))
    holding = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert {f"tests/{name}" for name in holding} == set(named)


def test_every_part_is_run_by_ci() -> None:
    declared = re.search(r"^PARTS := (.*)$", makefile(), re.MULTILINE)
    assert declared is not None
    run = (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"test-part-(\w+):", run) == declared[1].split()


@pytest.mark.parametrize("path", marks.BY_PATH)
def test_every_entry_of_the_table_names_tests(path: str) -> None:
    file, _, function = path.partition("::")
    assert (TESTS / file).exists(), path
    name = function.partition("[")[0]
    assert f"def {name}" in (TESTS / file).read_text() if name else True, path


def test_every_mark_has_a_meaning() -> None:
    assert {mark for names in marks.BY_PATH.values() for mark in names.split()} < set(
        marks.MEANINGS
    )
