"""Whether a reader with one Avro schema can read what a writer with another one wrote.

The rules are those of schema resolution in Avro's specification.  Two are as the Java client has
them, for whole fleets rely on it: records are matched by their fields, not by their names, but for
unions with several records; and one is stricter, for nobody would notice: the scale of decimals.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from magnetar_broker.schemas.avro import (
    NO_DEFAULT,
    AvroType,
    Collection,
    Enumeration,
    Field,
    Fixed,
    Named,
    Record,
    Union,
    fits,
    shown,
    unqualified,
)

PROMOTIONS: Final = frozenset(
    (
        ("int", "long"),
        ("int", "float"),
        ("int", "double"),
        ("long", "float"),
        ("long", "double"),
        ("float", "double"),
        ("string", "bytes"),
        ("bytes", "string"),
    )
)
"""What a reader may take a writer's primitive for."""


class Misfit(NamedTuple):
    """Where and why a reader fails."""

    path: str
    """Of the field, from the outermost record on; empty at the root."""
    rule: str

    def __str__(self) -> str:
        return f"field '{self.path}': {self.rule}" if self.path else self.rule


class _Pair(NamedTuple):
    reader: AvroType
    writer: AvroType
    path: str
    only_record: bool = True
    """Whether the writer writes no other record in this place."""


def find_misfit(reader: AvroType, writer: AvroType) -> Misfit | None:
    """Why a reader cannot read everything that a writer may write; None if it can."""
    waiting = [_Pair(reader, writer, "")]
    seen: set[tuple[int, int, bool]] = set()
    while waiting:
        pair = waiting.pop()
        key = id(pair.reader), id(pair.writer), pair.only_record
        if key in seen:
            continue
        seen.add(key)
        found = _look_at(pair)
        if isinstance(found, Misfit):
            return found
        waiting += reversed(found)
    return None


def _look_at(pair: _Pair) -> list[_Pair] | Misfit:
    """What the pair alone is wrong about, or the pairs that it depends on."""
    reader, writer, path, _ = pair
    if isinstance(writer, Union):
        records = sum(isinstance(branch, Record) for branch in writer.branches)
        return [_Pair(reader, branch, path, records <= 1) for branch in writer.branches]
    if isinstance(reader, Union):
        return _branch_for(pair, reader)
    if isinstance(reader, Named) and isinstance(writer, Named) and reader.kind == writer.kind:
        return _named(reader, writer, path)
    if isinstance(reader, Collection) and isinstance(writer, Collection):
        if reader.kind == writer.kind:
            part = "[]" if reader.kind == "array" else "{}"
            return [_Pair(reader.item, writer.item, path + part)]
    elif reader.kind == writer.kind or (writer.kind, reader.kind) in PROMOTIONS:
        return _decimals(reader, writer, path)
    return Misfit(path, f"the reader's type is {reader.kind}, the writer's {writer.kind}")


def _named(reader: Named, writer: Named, path: str) -> list[_Pair] | Misfit:
    """Two of a kind."""
    if isinstance(reader, Record) and isinstance(writer, Record):
        return _fields(reader, writer, path)
    if isinstance(reader, Enumeration) and isinstance(writer, Enumeration):
        return _symbols(reader, writer, path)
    if isinstance(reader, Fixed) and isinstance(writer, Fixed):
        return _fixed(reader, writer, path)
    raise AssertionError(reader.kind)


def _fields(reader: Record, writer: Record, path: str) -> list[_Pair] | Misfit:
    written = {one.name: one for one in writer.fields}
    pairs = []
    for wanted in reader.fields:
        inner = f"{path}.{wanted.name}" if path else wanted.name
        found = next((written[name] for name in _names(wanted) if name in written), None)
        if found is not None:
            pairs.append(_Pair(wanted.type, found.type, inner))
        elif wanted.default is NO_DEFAULT:
            return Misfit(inner, "the reader's has no default, and the writer's record lacks it")
        elif not fits(wanted):
            said = f"{shown(wanted.default)} is no {wanted.type.kind}"
            return Misfit(inner, f"the reader's default {said}, and the writer's record lacks it")
    return pairs


def _names(field: Field) -> Iterator[str]:
    yield field.name
    yield from field.aliases


def _symbols(reader: Enumeration, writer: Enumeration, path: str) -> list[_Pair] | Misfit:
    if not reader.answers_to(writer.name):
        return _other_name(reader, writer, path)
    known = set(reader.symbols)
    lacking = next((symbol for symbol in writer.symbols if symbol not in known), None)
    if lacking is not None and reader.default is None:
        return Misfit(
            path,
            f"the reader's enum {reader.name} has neither a default nor the symbol {lacking!r}",
        )
    return []


def _fixed(reader: Fixed, writer: Fixed, path: str) -> list[_Pair] | Misfit:
    if not reader.answers_to(writer.name):
        return _other_name(reader, writer, path)
    if reader.size != writer.size:
        return Misfit(path, f"the reader's fixed has {reader.size} bytes, not {writer.size}")
    return _decimals(reader, writer, path)


def _other_name(reader: Enumeration | Fixed, writer: Enumeration | Fixed, path: str) -> Misfit:
    return Misfit(
        path,
        f"the reader's {reader.kind} is named {unqualified(reader.name)}, without "
        f"the writer's {unqualified(writer.name)} as an alias",
    )


def _decimals(reader: AvroType, writer: AvroType, path: str) -> list[_Pair] | Misfit:
    ours, theirs = reader.properties, writer.properties
    if ours.get("logicalType") == theirs.get("logicalType") == "decimal":
        scales = ours.get("scale", 0), theirs.get("scale", 0)
        if scales[0] != scales[1]:
            return Misfit(path, f"the reader's decimal has the scale {scales[0]}, not {scales[1]}")
    return []


# Branches of a reader's union ---------------------------------------------------------------


def _branch_for(pair: _Pair, reader: Union) -> list[_Pair] | Misfit:
    """The branch that would be read: of the same type and name, else one that can take it."""
    writer, path = pair.writer, pair.path
    exact = (branch for branch in reader.branches if _is_same(branch, writer))
    branch = next(exact, None) or next(
        (branch for branch in reader.branches if (writer.kind, branch.kind) in PROMOTIONS), None
    )
    if branch is None and isinstance(writer, Record) and pair.only_record:
        records = [branch for branch in reader.branches if isinstance(branch, Record)]
        branch = records[0] if len(records) == 1 else None
    if branch is None:
        return Misfit(path, f"the reader's union has no branch for the writer's {_title(writer)}")
    return [_Pair(branch, writer, path)]


def _is_same(branch: AvroType, writer: AvroType) -> bool:
    if isinstance(branch, Named) and isinstance(writer, Named):
        return branch.kind == writer.kind and branch.answers_to(writer.name)
    return branch.kind == writer.kind


def _title(schema: AvroType) -> str:
    if isinstance(schema, Named):
        return f"{schema.kind} {unqualified(schema.name)}"
    return schema.kind
