"""Checks the English of docstrings, comments, other texts and pages of docs: part of `make style`.

Lists each expression of CONTRIBUTING.md that readers stumble over, with its place and what to write
instead, and exits with 1 if there is one.  A text may be any string: errors, log lines and
descriptions of settings are made of them.
"""

import ast
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("proto", "storage", "broker", "client", "spark_connector", "scripts")
PAGES = ("README.md", "docs/*.md", "conf/*.conf")
IGNORED = {"docs/rest.md"}
"""Generated and not kept: its texts are checked where they are declared."""


class Rule(NamedTuple):
    found: re.Pattern[str]
    instead: str


BEGINNING = Rule(
    re.compile(r"(Of|That|What|Which|Have|Whether (it|they)|Returns? (when|what|where|if)) "),
    "begin with a verb or with the noun",
)
"""The rule for the beginning of a docstring."""
ENDING = Rule(re.compile(r"; `?[A-Z]\w+`?\.$"), "say when it is raised")
"""The rule for the end of a docstring's first paragraph: an error whose reason is missing."""
RULES = (
    Rule(
        re.compile(r"(?<!here )\b(is|are) no (?!longer\b|more\b|less\b)\w+", re.IGNORECASE),
        '"0 means no limit", "is not a text", "expected a text, got ..."',
    ),
    Rule(re.compile(r"(?<![\w.])\d+ is (none|never)\b"), '"0 means never"'),
    Rule(re.compile(r"\b(is|are) none of\b"), '"is not among", "expected one of ..., got ..."'),
    Rule(re.compile(r"\bso (many|few)\b", re.IGNORECASE), 'name the number, or "that many"'),
)


class Text(NamedTuple):
    """A text and the line where it begins; line breaks count as blanks."""

    line: int
    text: str
    is_docstring: bool = False


def strings_of(source: str) -> Iterator[Text]:
    """Yield all strings of a module; `{}` stands for what an f-string inserts."""
    tree = ast.parse(source)
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
             for part in node.values}  # fmt: skip
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [getattr(part, "value", "{}") for part in node.values]
            inserted = (piece if isinstance(piece, str) else "{}" for piece in pieces)
            yield Text(node.lineno, "".join(inserted))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield Text(node.lineno, node.value, node in docstrings)


def comments_of(source: str) -> Iterator[Text]:
    """Yield the comments of a module; those on lines that follow each other are one."""
    lines = iter(source.splitlines(keepends=True))
    found = [
        (token.start[0], token.string.lstrip("# "))
        for token in tokenize.generate_tokens(lambda: next(lines, ""))
        if token.type == tokenize.COMMENT
    ]
    for _, group in groupby(enumerate(found), lambda each: each[1][0] - each[0]):
        together = [comment for _, comment in group]
        yield Text(together[0][0], " ".join(text for _, text in together))


def paragraphs_of(page: str) -> Iterator[Text]:
    """Yield the paragraphs of a page; code is left out."""
    prose = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), page, flags=re.DOTALL)
    for paragraph in re.finditer(r"(?:.+\n?)+", prose):
        line = prose.count("\n", 0, paragraph.start()) + 1
        text = re.sub(r"^#+ ?", "", paragraph[0], flags=re.MULTILINE)
        yield Text(line, re.sub(r"`[^`]*`", "``", text))


def faults(texts: Iterable[Text]) -> Iterator[tuple[int, str]]:
    """Yield the line of each fault, and the fault with what to write instead."""
    for line, text, is_docstring in texts:
        plain = " ".join(text.split())
        if is_docstring and (beginning := BEGINNING.found.match(plain)):
            yield line, f"{beginning[0]}...: {BEGINNING.instead}"
        summary = " ".join(text.split("\n\n")[0].split())
        if is_docstring and (ending := ENDING.found.search(summary)):
            yield line, f"{ending[0]}: {ENDING.instead}"
        for rule in RULES:
            for found in rule.found.finditer(plain):
                yield line, f"{found[0]}: {rule.instead}"


def main() -> int:
    """Print the faults of the whole repository; return 1 if there are any."""
    failed = False
    modules = [path for root in SOURCES for path in sorted((ROOT / root).rglob("*.py"))]
    pages = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    for path in modules + pages:
        name = str(path.relative_to(ROOT))
        if name in IGNORED or path.name.endswith("_pb2.py"):
            continue
        content = path.read_text(encoding="utf-8")
        texts = (
            [*strings_of(content), *comments_of(content)]
            if path.suffix == ".py"
            else paragraphs_of(content)
        )
        for line, fault in sorted(faults(texts)):
            failed = True
            print(f"{name}:{line}: {fault}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
