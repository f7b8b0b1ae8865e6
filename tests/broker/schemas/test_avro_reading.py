"""Who can read what, beside another implementation that does read it."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest
from fastavro.schema import parse_schema
from hypothesis import given, settings

from effort import examples
from fakes.avro_schemas import evolutions, samples
from magnetar_broker.schemas.avro import AvroType, parse
from magnetar_broker.schemas.avro_reading import find_incompatibility


def parsed(schema: Any) -> AvroType:
    return parse(json.dumps(schema).encode())


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def of(kind: Any) -> dict[str, Any]:
    """A record with one field."""
    return record(field("a", kind))


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": symbols, **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def decimal(scale: int, precision: int = 10) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def why_not(reader: Any, writer: Any) -> str | None:
    found = find_incompatibility(parsed(reader), parsed(writer))
    return None if found is None else str(found)


# Beside fastavro ----------------------------------------------------------------------------


def reads(reader: Any, writer: Any, datum: Any) -> bool:
    """Whether fastavro reads it."""
    encoded = BytesIO()
    fastavro.schemaless_writer(encoded, writer, datum)
    encoded.seek(0)
    try:
        fastavro.schemaless_reader(encoded, writer, reader)
    except (fastavro.read.SchemaResolutionError, ValueError, KeyError, IndexError):
        return False
    return True


@settings(max_examples=examples(500))
@given(evolutions())
def test_whatever_fits_is_read_and_of_the_rest_something_is_not(pair: tuple[Any, Any]) -> None:
    writer, reader = pair
    incompatibility = why_not(reader, writer)
    theirs, ours = parse_schema(writer), parse_schema(reader)
    read = [reads(ours, theirs, datum) for datum in samples(writer)]
    if incompatibility is None:
        assert all(read)
    elif read:  # else nothing can be written
        assert not all(read), incompatibility


# Rule by rule ---------------------------------------------------------------------------------

FITTING = {
    "the same": (of("int"), of("int")),
    "a field less": (record(), of("int")),
    "a default for what was not written": (record(field("a", "int", default=1)), record()),
    "fields in another order": (
        record(field("b", "int"), field("a", "int")),
        record(field("a", "int"), field("b", "int")),
    ),
    "an alias of a field": (record(field("b", "int", aliases=["a"])), of("int")),
    "another name of the record": (record(name="New"), record(name="Old")),
    "another namespace": (record(namespace="new"), record(namespace="old")),
    "a promotion": (of("double"), of("int")),
    "text for bytes": (of("bytes"), of("string")),
    "a union around it": (of(["null", "int"]), of("int")),
    "a promotion into a union": (of(["null", "double"]), of("int")),
    "a wider union": (of(["string", "null", "int"]), of(["null", "int"])),
    "a union that is one type": (of("int"), of(["int"])),
    "an optional record that was renamed": (
        of(["null", record(name="New")]),
        of(["null", record(name="Old")]),
    ),
    "symbols in another order": (of(enum("B", "A")), of(enum("A", "B"))),
    "a symbol less written": (of(enum("A", "B")), of(enum("A"))),
    "a default for unknown symbols": (of(enum("A", default="A")), of(enum("A", "B"))),
    "an alias of an enum": (of(enum("A", name="New", aliases=["E"])), of(enum("A"))),
    "another namespace of an enum": (of(enum("A", namespace="n")), of(enum("A", namespace="m"))),
    "an alias of a fixed": (of(fixed(2, name="New", aliases=["F"])), of(fixed(2))),
    "a longer decimal": (of(decimal(2, 12)), of(decimal(2, 10))),
    "a decimal and its bytes": (of(decimal(2)), of("bytes")),
    "a default that is none where it is not needed": (
        record(field("a", "int", default="x")),
        of("int"),
    ),
    "itself again and again": (
        record(field("value", "long"), field("next", ["null", "R"])),
        record(field("value", "int"), field("next", ["null", "R"])),
    ),
}


@pytest.mark.parametrize(("reader", "writer"), FITTING.values(), ids=FITTING.keys())
def test_what_fits(reader: Any, writer: Any) -> None:
    assert why_not(reader, writer) is None


ADDRESS = record(field("street", "string"), name="Address")
LONGER = record(field("street", "string"), field("zip", "string"), name="Address")
TWO = [record(field("x", "int"), name="A"), record(field("y", "int"), name="B")]
SWAPPED = [record(field("x", "int"), name="B"), record(field("y", "int"), name="A")]

MISFITS = {
    "nothing to put into a field": (
        record(field("address", LONGER)),
        record(field("address", ADDRESS)),
        "field 'address.zip': the reader's has no default, and the writer's record lacks it",
    ),
    "no promotion back": (
        of("int"),
        of("long"),
        "field 'a': the reader's type is int, the writer's long",
    ),
    "another kind": (of("int"), of({"type": "array", "items": "int"}), "type is int, the writer's"),
    "an array and a map": (
        of({"type": "array", "items": "int"}),
        of({"type": "map", "values": "int"}),
        "the reader's type is array, the writer's map",
    ),
    "an array's items": (
        of({"type": "array", "items": "int"}),
        of({"type": "array", "items": "string"}),
        "field 'a[]': the reader's type is int, the writer's string",
    ),
    "a map's values": (
        of({"type": "map", "values": ADDRESS | {"fields": LONGER["fields"]}}),
        of({"type": "map", "values": ADDRESS}),
        "field 'a{}.zip': the reader's has no default",
    ),
    "a branch that is gone": (
        of(["null", "int"]),
        of(["null", "int", "string"]),
        "field 'a': the reader's union has no branch for the writer's string",
    ),
    "no union any more": (of("int"), of(["null", "int"]), "the reader's type is int, the writer's"),
    "records of a union that changed names": (of(SWAPPED), of(TWO), "has no default"),
    "a record of a union that it does not know": (
        of(["null", record(name="C")]),
        of(TWO),
        "the reader's union has no branch for the writer's record A",
    ),
    "a symbol that is gone": (
        of(enum("A")),
        of(enum("A", "B")),
        "field 'a': the reader's enum E has neither a default nor the symbol 'B'",
    ),
    "another enum": (
        of(enum("A", name="New")),
        of(enum("A")),
        "without the writer's E as an alias",
    ),
    "another fixed": (of(fixed(2, name="New")), of(fixed(2)), "without the writer's F as an alias"),
    "another size": (of(fixed(2)), of(fixed(3)), "the reader's fixed has 2 bytes, not 3"),
    "another scale": (of(decimal(3)), of(decimal(2)), "decimal has the scale 3, not 2"),
    "at the root": ("int", "string", "the reader's type is int, the writer's string"),
    "deep in itself": (
        record(field("value", "int"), field("next", ["null", "R"])),
        record(field("value", "long"), field("next", ["null", "R"])),
        "field 'value': the reader's type is int, the writer's long",
    ),
}


@pytest.mark.parametrize(("reader", "writer", "words"), MISFITS.values(), ids=MISFITS.keys())
def test_what_does_not_fit_and_why(reader: Any, writer: Any, words: str) -> None:
    assert words in (why_not(reader, writer) or "")


MANY: list[tuple[Any, Any]] = [
    ("int", "x"),
    ("int", None),
    ("int", 1 << 31),
    ("long", 1 << 63),
    ("boolean", 0),
    ("bytes", "\u20ac"),
    (["null", "int"], "x"),
    ({"type": "array", "items": "int"}, ["x"]),
    ({"type": "map", "values": "int"}, {"k": "x"}),
    (enum("A"), "B"),
    (fixed(2), "x"),
    (record(field("x", "int"), name="Inner"), {}),
    (record(field("x", "int"), name="Inner"), {"x": "y"}),
]


@pytest.mark.parametrize(("kind", "default"), MANY)
def test_defaults_that_are_none(kind: Any, default: Any) -> None:
    why = why_not(record(field("a", kind, default=default)), record())
    assert "field 'a': the reader's default" in (why or "") and "lacks it" in (why or "")


GOOD: list[tuple[Any, Any]] = [
    ("int", 5),
    ("double", 5),
    ("bytes", "\xff"),
    (["null", "int"], 5),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "int"}, {"k": 1}),
    (enum("A"), "A"),
    (fixed(2), "xy"),
    (record(field("x", "int", default=1), name="Inner"), {}),
    (record(field("x", ["null", "Inner"]), name="Inner"), {"x": {"x": None}}),
]


@pytest.mark.parametrize(("kind", "default"), GOOD)
def test_defaults_of_all_kinds(kind: Any, default: Any) -> None:
    assert why_not(record(field("a", kind, default=default)), record()) is None


def test_a_default_that_could_be_one_of_many_types_takes_no_time() -> None:
    other = record(field("x", ["null", "X", "Y"]), name="Y")
    either = record(field("x", ["null", "X", other]), name="X")
    default: Any = {"x": "nothing"}
    for _ in range(60):
        default = {"x": default}
    why = why_not(record(field("a", either, default=default)), record())
    assert "does not fit the type record" in (why or "")


def test_types_that_refer_to_each_other_a_thousand_deep() -> None:
    chain = [record(name="R0")]
    chain += [record(field("x", f"R{number}"), name=f"R{number + 1}") for number in range(3000)]
    schema = record(*(field(f"f{number}", one) for number, one in enumerate(chain)), name="Chain")
    assert why_not(schema, schema) is None


def ring(records: int) -> dict[str, Any]:
    """Records each of which holds the one before; the first holds them all."""
    before, fields = "Ring", []
    for number in range(records):
        inner = record(field("x", before), name=f"R{number}")
        fields.append(field(f"f{number}", ["null", inner], default=None))
        before = inner["name"]
    return record(*fields, field("x", before), name="Ring")


def test_rings_of_types_are_compared_as_far_as_that_takes_no_time() -> None:
    assert why_not(ring(20), ring(21)) is None
    why = why_not(ring(600), ring(601)) or ""
    assert "too large to be compared" in why
    assert len(why) < 400


def test_every_branch_of_a_large_union_is_found() -> None:
    names = [f"F{number}" for number in range(3000)]
    schema = of([fixed(1, name=name) for name in names])
    assert why_not(schema, schema) is None
    renamed = of([fixed(1, name=f"New{name}", aliases=[f"a.b.{name}"]) for name in names])
    assert why_not(renamed, schema) is None
    assert "no branch for the writer's fixed NewF0" in (why_not(schema, renamed) or "")


def test_defaults_are_looked_at_as_far_as_that_takes_no_time() -> None:
    branches = [enum(f"S{number}", name=f"E{number}") for number in range(1000)]
    default = ["S999" for _ in range(1000)]
    array = field("a", {"type": "array", "items": branches}, default=default)
    assert "the reader's default" in (why_not(record(array), record()) or "")
    array["default"] = default[:20]
    assert why_not(record(array), record()) is None
