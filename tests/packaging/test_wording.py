"""The expressions that `make style` refuses, and those that only look like them."""

from importlib import import_module

import pytest

wording = import_module("scripts.wording")


def faults_of(source: str) -> list[tuple[int, str]]:
    """Return the line and the expression of each fault in a module."""
    texts = [*wording.strings_of(source), *wording.comments_of(source)]
    return [(line, fault.partition(":")[0]) for line, fault in wording.faults(texts)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""What the parts share."""', [(1, "What ...")]),
        ('def f():\n    """Of the subscription."""', [(2, "Of ...")]),
        ('x = 1\n"""That a sync failed."""', [(2, "That ...")]),
        ('class A:\n    """\n    Which worker\n    owns it.\n    """', [(2, "Which ...")]),
        ('def f():\n    """Have every run get it."""', [(2, "Have ...")]),
        (
            'def f():\n    """Send it;\n    `Closed`.\n\n    It is late.\n    """',
            [(2, "; `Closed`.")],
        ),
        ('raise ValueError(f"{value!r} is no text: give a str")', [(1, "is no text")]),
        ('f(f"{name} is none of {names}")', [(1, "is none of")]),
        ('f("a" \'b" are no \' f"{c} numbers, 0 is " "no limit")', [(1, "is no limit")]),
        ('KEY = Key("a", "Most topics; 0 is no "\n  "limit.")', [(1, "is no limit")]),
        ("x = 1\n# It reads so\n#   many entries.\ny = 2", [(2, "so many")]),
        ("x = 1  # after this many minutes; 0 is never", [(1, "0 is never")]),
    ],
)
def test_expressions_that_are_refused(source: str, found: list[tuple[int, str]]) -> None:
    assert faults_of(source) == found


@pytest.mark.parametrize(
    "source",
    [
        'x = "What it is"  # What it is',
        '"""There is no text, and there are no numbers; it is no longer than 5."""',
        '"""Return whether that is not a text; 1.0 is none."""',
        '"""Read as many entries as there are."""',
        '"""Send it; `Closed` after the end.\n\n    Raises nothing; `Closed`.\n    """',
        "# It reads so\nx = 1\n# many entries.",
    ],
)
def test_expressions_that_are_not(source: str) -> None:
    assert faults_of(source) == []


def test_pages_are_checked_without_their_code() -> None:
    page = "# Limits\n\n```\n0 is no limit\n```\n`0 is no limit` is\nwrong.\n\n- 0 is\n  no limit\n"
    found = list(wording.faults(wording.paragraphs_of(page)))
    assert [(line, fault.partition(":")[0]) for line, fault in found] == [(9, "is no limit")]
