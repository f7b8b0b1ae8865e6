"""Promises marked in the sources, and the mutation that breaks each."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

MARK = re.compile(r"# promise(?:\[(?P<operator>.*)\])?:(?: (?P<promise>.*))?")
Node = ast.stmt | ast.ExceptHandler
VALUES = (ast.Return, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True)
class Mark:
    """One promise in one source."""

    line: int
    """Where the statement begins, or the part of one, that keeps the promise."""
    operator: str
    promise: str


@dataclass(frozen=True)
class Cut:
    """What replaces the text between two places of a source."""

    start: int
    stop: int
    new: str


class WrongMark(ValueError):
    """A mark that names no mutation of the statement beside it."""


class Source:
    """A source with its syntax tree and its marks."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self.tree = ast.parse(text)
        self._nodes = list(ast.walk(self.tree))  # outer ones first

    def marks(self) -> Iterator[Mark]:
        before: list[Mark] = []
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            line = token.start[0]
            if token.type == tokenize.COMMENT:
                if token.string.startswith("# promise"):
                    mark = _mark(line, token.string)
                    if token.line[: token.start[1]].strip():
                        yield mark
                    else:
                        before.append(mark)
                elif before and token.string.startswith("#   "):
                    promise = f"{before[-1].promise} {token.string[4:]}".strip()
                    before[-1] = replace(before[-1], promise=promise)
            elif token.string.strip():
                yield from (replace(mark, line=line) for mark in before)
                before.clear()

    def cut(self, mark: Mark) -> Cut:
        """Return what breaks the promise; raise `WrongMark` if the statement has no such part."""
        if not mark.promise:
            raise WrongMark(f"line {mark.line}: the mark does not say what is promised")
        node = self._statement(mark.line)
        if mark.operator == "swap":
            return self._swapped(node)
        if mark.operator in ("", "never", "always"):
            return self._constant(node, mark.operator)
        old, arrow, new = mark.operator.partition(" -> ")
        if not arrow:
            if not old.startswith("without "):
                raise WrongMark(f"line {mark.line}: {old} is no operator")
            old = old.removeprefix("without ")
        place = re.compile(r"\s+".join(map(re.escape, old.split()))).search(
            self.text, self._starts[mark.line - 1], self._header_end(node)
        )
        if place is None:
            raise WrongMark(f"line {mark.line}: the statement has no {old}")
        return Cut(*place.span(), new.strip())

    def span(self, node: ast.expr | Node) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._at(node.lineno, node.col_offset),
            self._at(node.end_lineno, node.end_col_offset),
        )

    def _constant(self, node: Node, operator: str) -> Cut:
        value = str(operator == "always")
        if isinstance(node, ast.If | ast.While):
            return Cut(*self.span(node.test), value)
        if not operator and not isinstance(node, ast.ExceptHandler):
            return Cut(*self.span(node), "pass")
        if isinstance(node, VALUES) and node.value is not None:
            return Cut(*self.span(node.value), value)
        raise WrongMark(f"line {node.lineno}: there is no condition for {operator}")

    def _swapped(self, node: Node) -> Cut:
        for parent in self._nodes:
            for _, body in ast.iter_fields(parent):
                for one, behind in pairwise(body if isinstance(body, list) else ()):
                    if one is node:
                        start, end = self.span(node)
                        behind_start, behind_end = self.span(behind)
                        new = self.text[behind_start:behind_end] + self.text[end:behind_start]
                        return Cut(start, behind_end, new + self.text[start:end])
        raise WrongMark(f"line {node.lineno}: no statement follows to swap with")

    def _statement(self, line: int) -> Node:
        """Return the outermost statement that begins there, or the innermost that is around."""
        around = None
        for node in self._nodes:
            if isinstance(node, ast.stmt | ast.ExceptHandler) and node.end_lineno is not None:
                if node.lineno == line:
                    return node
                if node.lineno < line <= node.end_lineno:
                    around = node
        if around is None:
            raise WrongMark(f"line {line}: there is no statement")
        return around

    def _header_end(self, node: Node) -> int:
        body = getattr(node, "body", None)
        return self.span(body[0])[0] if body else self.span(node)[1]

    def _at(self, line: int, column: int) -> int:
        start = self._starts[line - 1]
        return start + len(self._lines[line - 1].encode()[:column].decode())


def _mark(line: int, comment: str) -> Mark:
    found = MARK.fullmatch(comment)
    if found is None:
        raise WrongMark(f"line {line}: {comment} is no mark")
    return Mark(line, found["operator"] or "", found["promise"] or "")
