"""Checks whether data of one Avro schema can be read with another; if not, gives the reason.

The rules are those of schema resolution in Avro's specification.  Two differ as in the Java client,
because deployed clients rely on it: records are matched by their fields, not by their names, except
in unions with several records.  One is stricter: the scale of decimals must be equal, since clients
would read wrong values without any error.

Libraries for Avro read data, and do not compare schemas without data.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from magnetar_broker.schemas.avro import (
    NO_DEFAULT,
    PRIMITIVES,
    AvroType,
    Collection,
    Enumeration,
    Field,
    Fitting,
    Fixed,
    Named,
    Record,
    Union,
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
"""The pairs of a writer's primitive type and a reader's that may read it."""


MAX_WORK: Final = 100_000
"""The most fields, branches and names that are looked at: other tasks wait meanwhile."""
SHOWN_PATH: Final = 200
"""The most characters shown of a path, which loses its beginning."""

Path = tuple["Path", str] | None
"""The path of a field from the outermost record: the path so far and a step; None at the root."""


class Incompatibility(NamedTuple):
    """The place where a reader fails, and the rule that it breaks there."""

    path: Path
    rule: str

    def __str__(self) -> str:
        path = _text_of(self.path)
        return f"field '{path}': {self.rule}" if path else self.rule


def _text_of(path: Path) -> str:
    steps = []
    while path is not None:
        path, step = path
        steps.append(step)
    text = "".join(reversed(steps)).removeprefix(".")
    return text if len(text) <= SHOWN_PATH else f"...{text[-SHOWN_PATH:]}"


class _Pair(NamedTuple):
    reader: AvroType
    writer: AvroType
    path: Path
    only_record: bool = True
    """Whether the writer writes no other record in this place."""


class _Branches:
    """The branches of a reader's union, indexed by the ways of finding them."""

    def __init__(self, union: Union) -> None:
        self.by_name: dict[tuple[str, str], AvroType] = {}
        """The first branch of each kind by each of its names; "" stands for kinds without names."""
        for branch in union.branches:
            for name in _names_of(branch):
                self.by_name.setdefault((branch.kind, name), branch)
        self.primitives = [branch for branch in union.branches if branch.kind in PRIMITIVES]
        records = [branch for branch in union.branches if isinstance(branch, Record)]
        self.only_record = records[0] if len(records) == 1 else None


class _Known:
    """Results about readers that are reused within one comparison."""

    def __init__(self) -> None:
        self.work = 0
        self.fitting = Fitting()
        self._branches: dict[int, _Branches] = {}

    def branches_of(self, union: Union) -> _Branches:
        branches = self._branches.get(id(union))
        if branches is None:
            branches = self._branches[id(union)] = _Branches(union)
            self.work += len(branches.by_name)
        return branches


def _names_of(branch: AvroType) -> Iterator[str]:
    if isinstance(branch, Named):
        yield unqualified(branch.name)
        yield from branch.aliases
    else:
        yield ""


def find_incompatibility(reader: AvroType, writer: AvroType) -> Incompatibility | None:
    """Return the place and reason why a reader cannot read a writer's data; None if it can."""
    waiting = [_Pair(reader, writer, None)]
    seen: set[tuple[int, int, bool]] = set()
    known = _Known()
    work = 0
    while waiting:
        pair = waiting.pop()
        key = id(pair.reader), id(pair.writer), pair.only_record
        if key in seen:
            continue
        seen.add(key)
        work += _width(pair.writer) + (1 if isinstance(pair.reader, Union) else _width(pair.reader))
        if work + known.work > MAX_WORK:
            return Incompatibility(
                pair.path, "the schemas are too large to be compared: make them simpler"
            )
        found = _look_at(pair, known)
        if isinstance(found, Incompatibility):
            return found
        waiting += reversed(found)
    return None


def _width(schema: AvroType) -> int:
    """Return the amount of work for one type, without the types inside of it."""
    width = 1 + (len(schema.aliases) if isinstance(schema, Named) else 0)
    if isinstance(schema, Union):
        return width + len(schema.branches)
    if isinstance(schema, Enumeration):
        return width + len(schema.symbols)
    if isinstance(schema, Record):
        return width + sum(1 + len(one.aliases) for one in schema.fields)
    return width


def _look_at(pair: _Pair, known: _Known) -> list[_Pair] | Incompatibility:
    """Return the fault of the pair itself, or the pairs that decide about it."""
    reader, writer, path, _ = pair
    if isinstance(writer, Union):
        records = sum(isinstance(branch, Record) for branch in writer.branches)
        return [_Pair(reader, branch, path, records <= 1) for branch in writer.branches]
    if isinstance(reader, Union):
        return _branch_for(pair, reader, known)
    if isinstance(reader, Named) and isinstance(writer, Named) and reader.kind == writer.kind:
        return _named(reader, writer, path, known)
    if isinstance(reader, Collection) and isinstance(writer, Collection):
        if reader.kind == writer.kind:
            part = "[]" if reader.kind == "array" else "{}"
            return [_Pair(reader.item, writer.item, (path, part))]
    elif reader.kind == writer.kind or (writer.kind, reader.kind) in PROMOTIONS:
        return _decimals(reader, writer, path)
    return Incompatibility(path, f"the reader's type is {reader.kind}, the writer's {writer.kind}")


def _named(
    reader: Named, writer: Named, path: Path, known: _Known
) -> list[_Pair] | Incompatibility:
    """Compare two named types of one kind."""
    if isinstance(reader, Record) and isinstance(writer, Record):
        return _fields(reader, writer, path, known)
    if isinstance(reader, Enumeration) and isinstance(writer, Enumeration):
        return _symbols(reader, writer, path)
    if isinstance(reader, Fixed) and isinstance(writer, Fixed):
        return _fixed(reader, writer, path)
    raise AssertionError(reader.kind)


def _fields(
    reader: Record, writer: Record, path: Path, known: _Known
) -> list[_Pair] | Incompatibility:
    written = {one.name: one for one in writer.fields}
    pairs = []
    for wanted in reader.fields:
        inner = path, f".{wanted.name}"
        found = next((written[name] for name in _names(wanted) if name in written), None)
        if found is not None:
            pairs.append(_Pair(wanted.type, found.type, inner))
        elif wanted.default is NO_DEFAULT:
            return Incompatibility(
                inner, "the reader's has no default, and the writer's record lacks it"
            )
        elif not known.fitting.has_default(wanted):
            default = f"{shown(wanted.default)} does not fit the type {wanted.type.kind}"
            return Incompatibility(
                inner, f"the reader's default {default}, and the writer's record lacks it"
            )
    return pairs


def _names(field: Field) -> Iterator[str]:
    yield field.name
    yield from field.aliases


def _symbols(reader: Enumeration, writer: Enumeration, path: Path) -> list[_Pair] | Incompatibility:
    if not reader.answers_to(unqualified(writer.name)):
        return _other_name(reader, writer, path)
    known = set(reader.symbols)
    lacking = next((symbol for symbol in writer.symbols if symbol not in known), None)
    if lacking is not None and reader.default is None:
        return Incompatibility(
            path,
            f"the reader's enum {reader.name} has neither a default nor the symbol {lacking!r}",
        )
    return []


def _fixed(reader: Fixed, writer: Fixed, path: Path) -> list[_Pair] | Incompatibility:
    if not reader.answers_to(unqualified(writer.name)):
        return _other_name(reader, writer, path)
    if reader.size != writer.size:
        return Incompatibility(
            path, f"the reader's fixed has {reader.size} bytes, not {writer.size}"
        )
    return _decimals(reader, writer, path)


def _other_name(
    reader: Enumeration | Fixed, writer: Enumeration | Fixed, path: Path
) -> Incompatibility:
    return Incompatibility(
        path,
        f"the reader's {reader.kind} is named {unqualified(reader.name)}, without "
        f"the writer's {unqualified(writer.name)} as an alias",
    )


def _decimals(reader: AvroType, writer: AvroType, path: Path) -> list[_Pair] | Incompatibility:
    ours, theirs = reader.properties, writer.properties
    if ours.get("logicalType") == theirs.get("logicalType") == "decimal":
        scales = ours.get("scale", 0), theirs.get("scale", 0)
        if scales[0] != scales[1]:
            return Incompatibility(
                path, f"the reader's decimal has the scale {scales[0]}, not {scales[1]}"
            )
    return []


# Branches of a reader's union ---------------------------------------------------------------


def _branch_for(pair: _Pair, reader: Union, known: _Known) -> list[_Pair] | Incompatibility:
    """Return the branch that reads the writer's type: an equal one, else a promotion."""
    writer, path = pair.writer, pair.path
    name = unqualified(writer.name) if isinstance(writer, Named) else ""
    branches = known.branches_of(reader)
    branch = branches.by_name.get((writer.kind, name)) or next(
        (one for one in branches.primitives if (writer.kind, one.kind) in PROMOTIONS), None
    )
    if branch is None and isinstance(writer, Record) and pair.only_record:
        branch = branches.only_record
    if branch is None:
        return Incompatibility(
            path, f"the reader's union has no branch for the writer's {_title(writer)}"
        )
    return [_Pair(branch, writer, path)]


def _title(schema: AvroType) -> str:
    if isinstance(schema, Named):
        return f"{schema.kind} {unqualified(schema.name)}"
    return schema.kind
