"""Classes as JSON: their definition, both ways, and what does not fit."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulsar.schema import JsonSchema
from pydantic import BaseModel, Field, ValidationError

from client.schema import official_records
from client.schema.records_of import Colour, Everything, Exact, Item, Tree, everything
from effort import examples
from magnetar.schema import Json


def test_a_class_is_defined_as_the_official_client_does() -> None:
    ours = json.loads(Json(official_records.OurClasses.Order).info.definition)
    assert ours == official_records.Order.schema()


def test_the_official_client_reads_the_same_json() -> None:
    encoded = Json(official_records.OurClasses.Order).encode(official_records.ours())
    theirs = JsonSchema(official_records.Order)
    assert theirs.decode(encoded) == official_records.theirs()
    again = Json(official_records.OurClasses.Order).decode(theirs.encode(official_records.theirs()))
    assert again == official_records.ours()


def test_all_kinds_of_fields() -> None:
    kind = Json(Everything)
    assert kind.decode(kind.encode(everything())) == everything()
    fields = {one["name"]: one for one in json.loads(kind.info.definition)["fields"]}
    assert fields["moment"]["type"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert fields["either"]["type"] == ["long", "string"]
    assert fields["note"] == {"name": "note", "default": None, "type": ["null", "string"]}
    assert fields["label"] == {"name": "label", "default": "none", "type": ["string", "null"]}
    assert fields["tags"]["default"] == ["a"]
    assert fields["raw"]["default"] == "\x01"
    assert fields["tint"] == {"name": "tint", "default": "GREEN", "type": "Colour"}


def test_classes_may_contain_themselves() -> None:
    tree = Tree("a", [Tree("b", []), Tree("c", [Tree("d", [])])])
    assert Json(Tree).decode(Json(Tree).encode(tree)) == tree


@settings(max_examples=examples(300))
@given(st.builds(Item, st.text(), st.floats(allow_nan=False, allow_infinity=False)))
def test_what_is_encoded_is_decoded(item: Item) -> None:
    assert Json(Item).decode(Json(Item).encode(item)) == item


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("name"), inner),
)


@settings(max_examples=examples(500))
@given(JSON_VALUES)
def test_other_json_is_a_value_or_an_error(value: Any) -> None:
    try:
        decoded = Json(Tree).decode(json.dumps(value).encode())
    except ValueError:
        return
    assert isinstance(decoded, Tree)


def test_fields_beyond_are_left_out_and_missing_ones_have_defaults() -> None:
    assert Json(Item).decode(b'{"name": "a", "size": 3}') == Item("a", 0.5)
    with pytest.raises(ValueError, match=r"Item.name: it is missing, and has no default"):
        Json(Item).decode(b'{"price": 3}')


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("truth", 1, "Everything.truth: expected a bool, got 1"),
        ("whole", 2**63, "does not fit in an Avro long"),
        ("small", 2**31, "does not fit in an Avro int"),
        ("real", float("nan"), "cannot be written in JSON"),
        ("binary", b"\xff", "expected UTF-8"),
        ("colour", "RED", "expected Colour, got 'RED'"),
        ("item", None, "expected Item, got None"),
        ("items", [Item("a", "b")], "Everything.items: Item.price: expected a number, got 'b'"),  # type: ignore[arg-type]
        ("counts", {1: 1}, "expected a dict with str as keys"),
        ("moment", datetime(2024, 1, 1), "time zone"),
        ("either", None, "no type of the union"),
        ("note", 5, "expected a str, got 5"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(field: str, value: object, why: str) -> None:
    whole = everything()
    setattr(whole, field, value)
    with pytest.raises(ValueError, match=why):
        Json(Everything).encode(whole)


def test_the_official_client_writes_the_values_of_enums() -> None:
    @dataclass
    class Painted:
        colour: Colour

    for written in (b'{"colour": "RED"}', b'{"colour": 1}'):
        assert Json(Painted).decode(written) == Painted(Colour.RED)


def test_a_definition_without_class_takes_any_json() -> None:
    kind = Json(definition={"type": "record", "name": "R", "fields": []})
    assert kind.decode(kind.encode({"a": [1, None]})) == {"a": [1, None]}
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        kind.encode({"a": b"bytes"})


def test_a_namespace() -> None:
    made = json.loads(Json(Item, namespace="com.example").info.definition)
    assert (made["name"], made["namespace"]) == ("Item", "com.example")


class Model(BaseModel):
    name: str
    price: float = Field(default=0.5, ge=0)
    tags: list[str] = Field(default_factory=list)
    inner: "Model | None" = None


def test_models_of_pydantic() -> None:
    kind = Json(Model)
    model = Model(name="a", price=2, tags=["x"], inner=Model(name="b"))
    assert kind.decode(kind.encode(model)) == model
    assert kind.decode(b'{"name": "a"}') == Model(name="a")
    with pytest.raises(ValidationError):
        kind.decode(b'{"name": "a", "price": -1}')
    defined = {one["name"]: one for one in json.loads(kind.info.definition)["fields"]}
    assert defined["tags"] == {
        "name": "tags", "default": [], "type": {"type": "array", "items": "string"}
    }  # fmt: skip
    assert defined["inner"]["type"] == ["null", "Model"]


@dataclass
class Strange:
    what: complex


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Strange, "Strange.what: .* has no Avro type"),
        (Exact, "needs the schema Avro"),
        (int, "must be a dataclass or a pydantic model"),
        (complex, "has no Avro type"),
    ],
)
def test_classes_that_cannot_be_sent(kind: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Json(kind)
