"""Schemas of the official client and of `magnetar.compat`: the same definitions and bytes."""

import json
from collections.abc import Callable
from typing import Any

import pulsar
import pulsar.schema as theirs
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

import magnetar.compat.schema as ours
from client.compat.records import Colour, built, declared, order, plain, records, values
from effort import examples

OURS, THEIRS = declared(ours), declared(theirs)


def about(schema: Any) -> tuple[int, str, str]:
    info = schema.schema_info()
    return int(info.schema_type()), info.name(), info.schema()


@pytest.mark.parametrize("name", vars(OURS))
@pytest.mark.parametrize("kind", ["JsonSchema", "AvroSchema"])
def test_definitions_are_equal_as_text(name: str, kind: str) -> None:
    of_ours = getattr(ours, kind)(getattr(OURS, name))
    of_theirs = getattr(theirs, kind)(getattr(THEIRS, name))
    assert about(of_ours) == about(of_theirs)


def test_other_schemas_are_told_the_same() -> None:
    for name, arguments in (
        ("BytesSchema", ()), ("StringSchema", ()), ("ProtobufNativeSchema", (Timestamp,)),
        ("AvroSchema", (None, THEIRS.Part.schema())),
    ):  # fmt: skip
        of_ours, of_theirs = getattr(ours, name)(*arguments), getattr(theirs, name)(*arguments)
        assert about(of_ours) == about(of_theirs)
        if name != "AvroSchema":
            assert str(of_ours) == str(of_theirs)


@pytest.mark.parametrize("kind", ["JsonSchema", "AvroSchema"])
def test_values_are_equal_in_bytes(kind: str) -> None:
    of_ours, of_theirs = getattr(ours, kind)(OURS.Order), getattr(theirs, kind)(THEIRS.Order)
    for changed in (
        {}, {"part": None, "text": None, "colour": None}, {"colour": 1, "text": b"x", "binary": "y"}
    ):  # fmt: skip
        value = order(OURS, **changed)
        data = of_ours.encode(value)
        assert data == of_theirs.encode(order(THEIRS, **changed))
        assert of_ours.decode(data) == value
        assert plain(of_theirs.decode(data)) == plain(of_ours.decode(data))
    assert value.total() == -15


def test_dicts_with_a_definition_are_equal_in_bytes() -> None:
    definition = THEIRS.Part.schema()
    of_ours, of_theirs = ours.AvroSchema(None, definition), theirs.AvroSchema(None, definition)
    value = {"name": "a", "price": 1.5}
    data = of_ours.encode(value)
    assert data == of_theirs.encode(value)
    assert of_ours.decode(data) == value
    nested = {"a": Colour.RED, "b": [OURS.Part(name="x")], "c": {"d": 1}}
    assert of_ours.encode_dict(nested) == {
        "a": "RED", "b": [{"name": "x", "price": 0.5}], "c": {"d": 1},
    }  # fmt: skip


@settings(max_examples=examples(300))
@given(st.data())
def test_random_records(data: st.DataObject) -> None:
    kind = data.draw(records)
    value = data.draw(values(kind))
    mine = type(built(ours, kind, {}))
    other = type(built(theirs, kind, {}))
    assert json.dumps(mine.schema()) == json.dumps(other.schema())
    for name in ("JsonSchema", "AvroSchema"):
        of_ours, of_theirs = getattr(ours, name)(mine), getattr(theirs, name)(other)
        encoded = of_ours.encode(mine(**value))
        assert encoded == of_theirs.encode(other(**value))
        assert of_ours.decode(encoded) == mine(**value)


def outcome(call: Callable[[], Any]) -> Any:
    """What it returns, or the type of what it raises."""
    try:
        return plain(call())
    except Exception as error:
        return type(error)


WRONG: list[tuple[str, Any]] = [
    ("truth", 1), ("truth", None), ("small", "x"), ("small", 1.5), ("small", None), ("whole", "x"),
    ("real", "x"), ("text", 1), ("colour", 9), ("colour", "BLUE"), ("part", 3), ("parts", ({},)),
    ("parts", [3]), ("parts", [None]), ("counts", {1: 1}), ("counts", {"a": "b"}), ("counts", []),
    ("grid", [3]), ("times", None),
]  # fmt: skip
RIGHT: list[tuple[str, Any]] = [
    ("small", True), ("real", 1), ("wide", 2), ("text", b"x"), ("text", None), ("binary", "x"),
    ("colour", "RED"), ("colour", 2), ("whole", None), ("part", None), ("parts", []),
    ("counts", None), ("tags", []), ("note", ""), ("small", 0), ("again", None), ("tags", None),
]  # fmt: skip
ODD: list[tuple[str, Any]] = [("nothing", 1), ("nothing", None), ("likes", None), ("tells", None)]


def made(of: Any, name: str, value: Any) -> Any:
    return of.Odd(**{name: value}) if hasattr(of.Odd, name) else order(of, **{name: value})


def changed(of: Any, name: str, value: Any) -> Any:
    record = of.Odd() if hasattr(of.Odd, name) else order(of)
    setattr(record, name, value)
    return record


@pytest.mark.parametrize("way", [made, changed])
@pytest.mark.parametrize(("name", "value"), [*WRONG, *RIGHT, *ODD], ids=repr)
def test_fields_take_and_refuse_the_same(way: Any, name: str, value: Any) -> None:
    assert outcome(lambda: way(OURS, name, value)) == outcome(lambda: way(THEIRS, name, value))
    if (name, value) in WRONG:
        with pytest.raises(TypeError, match=name):
            way(OURS, name, value)


def test_records_without_arguments_have_the_same_values() -> None:
    for name in vars(OURS):
        assert plain(getattr(OURS, name)()) == plain(getattr(THEIRS, name)())
    assert OURS.Part(name="a") != OURS.Part(name="b")
    assert OURS.Part(name="a") == OURS.Part(name="a")
    assert (OURS.Part(name="a") == None) is False  # noqa: E711
    with pytest.raises(TypeError, match="unhashable"):
        hash(OURS.Part())
    assert str(OURS.Part(name="a")) == "{'name': 'a', 'price': 0.5}"


@pytest.mark.parametrize("of", [OURS, THEIRS], ids=["ours", "theirs"])
def test_what_is_no_field_cannot_be_set(of: Any) -> None:
    with pytest.raises(AttributeError, match="other_name"):
        of.Part().other_name = 1
    assert plain(of.Part(name="a", other_name=1)) == {"name": "a", "price": 0.5}


def test_records_share_no_defaults() -> None:
    first, second = OURS.Odd(), OURS.Odd()
    first.limits["b"] = 2
    first.part.name = "changed"
    assert (second.limits, second.part.name) == ({"a": 1}, None)


def test_what_the_official_client_cannot_have() -> None:
    class Wide(ours.Record):
        colours = ours.Array(ours.CustomEnum(Colour))
        grid = ours.Array(ours.Array(OURS.Part()))
        raw = ours.Bytes(default=b"\xff", required_default=True)

    items = Wide.schema()["fields"][0]["type"][1]["items"]
    assert items == {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}
    assert Wide.schema()["fields"][2]["default"] == "\xff"
    record = OURS.Order(parts=[OURS.Part(name="a"), {"name": "b"}])
    record.part = {"name": "c"}
    assert (record.parts[1].name, record.part.price) == ("b", 0.5)
    with pytest.raises(TypeError, match="binary"):
        record.binary = 3
    value = Wide(colours=["RED", Colour.GREEN], grid=[[{"name": "a"}]], raw=b"raw")
    assert value.colours == [Colour.RED, Colour.GREEN]
    for schema in (ours.JsonSchema(Wide), ours.AvroSchema(Wide)):
        assert schema.decode(schema.encode(value)) == value


def test_wrong_declarations_are_refused_where_they_are_made() -> None:
    anything: Any = dict
    calls: tuple[Callable[[], Any], ...] = (
        lambda: ours.Integer(default="x"),
        lambda: ours.Array(3),
        lambda: ours.Map(ours.String),
        lambda: ours.CustomEnum(anything),
        lambda: type("Wrong", (ours.Record,), {"x": ours.String}),
        lambda: ours.JsonSchema(anything),
        lambda: ours.AvroSchema(anything),
        lambda: ours.ProtobufNativeSchema(anything),
    )
    for call in calls:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="record class or a schema definition"):
        ours.AvroSchema(None)
    with pytest.raises(ValueError, match="not an Avro schema"):
        ours.AvroSchema(None, {"type": "none"})


@pytest.mark.parametrize("schema", [ours, pulsar.schema], ids=["ours", "theirs"])
def test_values_of_another_type_are_refused(schema: Any) -> None:
    of = declared(schema)
    for kind in (schema.JsonSchema(of.Part), schema.AvroSchema(of.Part)):
        for value in ({"name": "a"}, of.Sorted(), None):
            with pytest.raises(TypeError, match="Part"):
                kind.encode(value)
    with pytest.raises((TypeError, ValueError)):
        schema.AvroSchema(None, of.Part.schema()).encode(of.Part(name="a"))
    with pytest.raises((TypeError, ValueError)):
        schema.AvroSchema(of.Part).encode(of.Part())
    with pytest.raises(TypeError, match="Timestamp"):
        schema.ProtobufNativeSchema(Timestamp).encode(3)
