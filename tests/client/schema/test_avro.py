"""Avro from classes and definitions: both ways, other versions, and data that is dangerous."""

import json
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulsar.schema import AvroSchema

from client.schema import official_records
from client.schema.records_of import Everything, Exact, Item, Tree, everything
from effort import examples
from magnetar.schema import Avro, SchemaInfo
from magnetar_proto import PulsarApi_pb2 as pb

Ours, Theirs = official_records.OurClasses.Order, official_records.Order


def test_the_official_client_reads_and_writes_the_same_bytes() -> None:
    theirs = AvroSchema(Theirs)
    theirs.attach_client(None)
    assert json.loads(Avro(Ours).info.definition) == Theirs.schema()
    encoded = Avro(Ours).encode(official_records.ours())
    assert theirs.encode(official_records.theirs()) == encoded
    assert theirs.decode(encoded) == official_records.theirs()
    assert Avro(Ours).decode(encoded) == official_records.ours()


def test_all_kinds_of_fields() -> None:
    kind = Avro(Everything)
    assert kind.decode(kind.encode(everything())) == everything()
    exact = Exact(Decimal("12.34"))
    assert Avro(Exact).decode(Avro(Exact).encode(exact)) == exact


@settings(max_examples=examples(300))
@given(st.builds(Item, st.text(), st.floats(allow_nan=False)))
def test_what_is_encoded_is_decoded(item: Item) -> None:
    assert Avro(Item).decode(Avro(Item).encode(item)) == item


@settings(max_examples=examples(500))
@given(st.binary(max_size=60))
def test_other_bytes_are_values_or_errors(data: bytes) -> None:
    for kind in (Avro(Everything), Avro(Tree)):
        try:
            kind.decode(data)
        except Exception as error:
            assert not isinstance(error, MemoryError)


def writer(definition: Any, kind: int = pb.Schema.Avro) -> SchemaInfo:
    return SchemaInfo(kind, json.dumps(definition).encode())


def written(definition: Any, value: Any) -> bytes:
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, definition, value)
    return buffer.getvalue()


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    made = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": made}


def test_another_version_of_a_class() -> None:
    older = record("Item", size="int", name="string") | {"namespace": "com.example"}
    data = written(older, {"size": 3, "name": "a"})
    assert Avro(Item).reading(writer(older)).decode(data) == Item("a", 0.5)
    whole = record("Renamed", name="bytes", price="int")
    data = written(whole, {"name": b"a", "price": 2})
    assert Avro(Item).reading(writer(whole)).decode(data) == Item("a", 2.0)
    with pytest.raises(ValueError, match=r"Item.name: it is missing"):
        Avro(Item).reading(writer(record("Item", size="int"))).decode(b"\2")


def test_another_version_of_a_definition() -> None:
    ours = record("Item", name="string") | {"namespace": "org"}
    ours["fields"].append({"name": "size", "type": "long", "default": 7})
    older = record("Thing", name="string", weight="int") | {"namespace": "com.example"}
    kind = Avro(definition=ours)
    assert kind.decode(kind.encode({"name": "a", "size": 1})) == {"name": "a", "size": 1}
    data = written(older, {"name": "a", "weight": 2})
    assert kind.reading(writer(older)).decode(data) == {"name": "a", "size": 7}


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (writer(record("Item"), pb.Schema.Json), "its type is JSON, not AVRO"),
        (SchemaInfo(pb.Schema.Avro, b"{"), "Expecting"),
        (writer({"type": "nothing"}), "is not an Avro schema"),
        (writer(record("Item", name="Missing")), "is not an Avro schema"),
        (writer(record("I", all={"type": "array", "items": "null"})), "items without bytes"),
        (
            writer(record("I", all={"type": "array", "items": record("E", none="null")})),
            "items without bytes",
        ),
    ],
    ids=str,
)
def test_writers_that_cannot_be_read(info: SchemaInfo, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Avro(Item).reading(info)


def test_data_that_nests_deeply_is_an_error_and_not_the_end_of_the_process() -> None:
    program = """
from dataclasses import dataclass
from magnetar.schema import Avro

@dataclass
class Tree:
    children: list["Tree"]

try:
    Avro(Tree).decode(bytes([2]) * 1_000_000 + bytes(1_000_001))
except RecursionError:
    print("an error")
"""
    # In another process: what this is about would end this one.
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == "an error\n", ended.stderr


def test_definitions_that_nest_deeply_are_refused() -> None:
    nested: Any = "int"
    for _ in range(5000):
        nested = {"type": "array", "items": nested}
    with pytest.raises((ValueError, RecursionError)):
        Avro(definition=record("R", all=nested))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Item.name: expected a str, got 5"):
        Avro(Item).encode(Item(5))  # type: ignore[arg-type]
    kind = Avro(definition=record("Item", name="string"))
    with pytest.raises(ValueError, match="does not fit the schema"):
        kind.encode({"name": 5})
    with pytest.raises(ValueError, match="either a class or a definition"):
        Avro()  # type: ignore[call-overload]


@dataclass
class Twice:
    one: Item
    two: list[Item]
    three: dict[str, Item] | None = None


def test_a_class_is_defined_once() -> None:
    fields = json.loads(Avro(Twice).info.definition)["fields"]
    assert fields[1]["type"] == {"type": "array", "items": "Item"}
    assert fields[2]["type"] == ["null", {"type": "map", "values": "Item"}]
    twice = Twice(Item("a"), [Item("b")], {"c": Item("d")})
    assert Avro(Twice, namespace="com.example").decode(
        Avro(Twice, namespace="com.example").encode(twice)
    ) == twice  # fmt: skip
