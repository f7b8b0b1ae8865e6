"""All mutations: of marks, of what storage syncs and compares, and those made by hand."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutants.hand import FAULTS, Fault
from mutants.marks import Cut, Source, WrongMark

ROOTS = ("proto", "storage", "broker", "client", "spark_connector")
SYNCS = {"sync", "sync_dir", "sync_all", "sync_data", "fsync", "fdatasync"}


@dataclass(frozen=True)
class Mutation:
    """One text of one source, and what to put in its place."""

    file: str
    """Its path in the repository."""
    line: int
    what: str
    """The operator, if there is one, and the promise that is broken."""
    old: str
    new: str
    start: int
    """Where the text begins in the file."""

    def apply(self, source: str) -> str:
        end = self.start + len(self.old)
        assert source[self.start : end] == self.old, f"{self.file}:{self.line} has changed"
        return source[: self.start] + self.new + source[end:]


def mutations(root: Path) -> list[Mutation]:
    """Return all mutations, in the order of the files."""
    return [
        one
        for package in ROOTS
        for path in sorted((root / package).rglob("*.py"))
        if not path.stem.endswith("_pb2")
        for one in in_source(str(path.relative_to(root)), path.read_text())
    ]


def in_source(file: str, text: str) -> list[Mutation]:
    """Return the mutations of one source; raise `WrongMark` if one of its marks names none."""
    faults = [fault for fault in FAULTS if fault.file == file]
    if not (faults or "# promise" in text or file.startswith("storage/")):
        return []
    source = Source(text)
    found: list[tuple[str, Cut]] = []
    try:
        for mark in source.marks():
            operator = f"[{mark.operator}] " if mark.operator else ""
            found.append((operator + mark.promise, source.cut(mark)))
    except WrongMark as error:
        raise WrongMark(f"{file}, {error}") from None
    if file.startswith("storage/"):
        found += _of_storage(source)
    found += [(fault.promise, _by_hand(text, fault)) for fault in faults]
    return [
        Mutation(
            file,
            text.count("\n", 0, cut.start) + 1,
            what,
            text[cut.start : cut.stop],
            cut.new,
            cut.start,
        )
        for what, cut in found
    ]


def _of_storage(source: Source) -> Iterator[tuple[str, Cut]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func)
            if name.rpartition(".")[2] in SYNCS:
                yield f"{ast.unparse(node)} is called", Cut(*source.span(node), "pass")
            elif name.endswith(".write_through"):
                new = ast.unparse(node).replace(".write_through(", ".write(")
                yield f"{name} syncs", Cut(*source.span(node), new)
            elif name == "self._events.append":
                yield "a cursor record is written", Cut(*source.span(node), "pass")
        elif isinstance(node, ast.Compare) and "crc32c(" in ast.unparse(node):
            differs = isinstance(node.ops[0], ast.NotEq)
            yield "a checksum is compared", Cut(*source.span(node), str(not differs))


def _by_hand(text: str, fault: Fault) -> Cut:
    if text.count(fault.old) != 1:
        raise WrongMark(f"{fault.file} has changed: {fault.promise}")
    start = text.index(fault.old)
    return Cut(start, start + len(fault.old), fault.new)
