"""What `make mutants` breaks is still there: it runs too rarely to notice."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from mutants.hand import FAULTS
from mutants.judges import ELSEWHERE, MIRRORS, judges
from mutants.marks import Source, WrongMark
from mutants.sites import in_source, mutations

ROOT = Path(__file__).resolve().parents[2]
AT_LEAST = {"proto": 3, "storage": 100, "broker": 450, "client": 80, "spark_connector": 25}
"""Mutations by package: a refactoring moves marks, and loses none. Raise them with new marks."""


def test_every_mutant_is_another_program() -> None:
    found = mutations(ROOT)  # which fails for a mark without a mutation, or a text that is gone
    counts = Counter(one.file.partition("/")[0] for one in found)
    assert all(counts[package] >= least for package, least in AT_LEAST.items()), counts
    assert Counter(one.what for one in found).keys() >= {fault.promise for fault in FAULTS}
    for file in {one.file for one in found}:
        source = (ROOT / file).read_text()
        tree = ast.dump(ast.parse(source))
        for one in found:
            if one.file == file:
                assert ast.dump(ast.parse(one.apply(source))) != tree, one


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = Counter((one.file, one.line, one.what) for one in mutations(ROOT))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_source_with_promises_has_tests_that_judge_them() -> None:
    for file in {one.file for one in mutations(ROOT)}:
        assert judges(ROOT, file), file


def test_the_rooms_and_tests_that_are_named_exist() -> None:
    packages = {name.parts[0]: name for name in (p.relative_to(ROOT) for p in ROOT.glob("*/*_*/"))}
    assert set(MIRRORS) <= set(packages) | {"client"}
    for room, places in ELSEWHERE.items():
        package, _, inside = room.partition("/")
        assert list(ROOT.glob(f"{package}/*/{inside}" if inside else package)), room
        assert all((ROOT / "tests" / place).exists() for place in places), room


def test_mutants_of_storage_are_shown_to_all_its_tests() -> None:
    shown = judges(ROOT, "storage/magnetar_storage/local/journal.py")
    assert len(shown) == len(set(shown))
    assert set(shown) >= set((ROOT / "tests/storage").rglob("test_*.py"))
    assert shown[0].name == "test_journal.py"


def mutants_of(text: str) -> list[str]:
    return [one.apply(text) for one in in_source("broker/x.py", text)]


@pytest.mark.parametrize(
    ("mark", "statement", "mutant"),
    [
        ("", "f()", "pass"),
        ("", "if a and b:\n    f()", "if False:\n    f()"),
        ("[always]", "if a and b:\n    f()", "if True:\n    f()"),
        ("[never]", "x = a < b", "x = False"),
        ("[swap]", "f()\ng()", "g()\nf()"),
        ("[without or b]", "x = (a\n     or b)", "x = (a\n     )"),
        ("[a < b -> a]", "if (a\n    < b):\n    f()", "if (a):\n    f()"),
        ("[E -> F]", "try:\n    f()\nexcept E:\n    g()", None),
    ],
)
def test_each_operator_makes_one_mutant(mark: str, statement: str, mutant: str | None) -> None:
    text = f"# promise{mark}: all is well\n#   in every case\n{statement}\n"
    if mutant is None:  # the text is behind the head of the statement
        with pytest.raises(WrongMark, match="has no E"):
            mutants_of(text)
    else:
        (found,) = mutants_of(text)
        assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(mutant))


def test_a_mark_may_follow_its_statement_and_several_precede_one() -> None:
    text = (
        "f()  # promise: f is called\n"
        "# promise[1 -> 2]: it is one\n# promise[without + 3]: three are added\nx = 1 + 3\n"
    )
    found = [ast.unparse(ast.parse(one)).splitlines() for one in mutants_of(text)]
    assert found == [["pass", "x = 1 + 3"], ["f()", "x = 2 + 3"], ["f()", "x = 1"]]


@pytest.mark.parametrize(
    "text",
    [
        "f()  # promise it\n",
        "f()  # promise[sometimes]: x\n",
        "f()  # promise[always]: x\n",
        "f()  # promise[swap]: x\n",
        "f()  # promise[g -> h]: x\n",
    ],
)
def test_a_mark_without_a_mutation_is_wrong(text: str) -> None:
    with pytest.raises(WrongMark):
        list(Source(text).marks())[0:] and mutants_of(text)


def test_marks_are_comments_and_no_texts() -> None:
    assert mutants_of('x = "# promise: no mark"\n') == []
