"""What is a schema, which ones are the same, and which can follow which."""

import base64
import json
import struct
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.avro_schemas import schemas
from magnetar_broker.schemas import key_value
from magnetar_broker.schemas.parsing import digest_of, parsed_schema
from magnetar_broker.schemas.types import InvalidSchema, Schema, SchemaType, type_named

T = SchemaType
A: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def text(definition: Any) -> bytes:
    return definition if isinstance(definition, bytes) else json.dumps(definition).encode()


def digest(definition: Any, kind: SchemaType = T.AVRO, **properties: str) -> str:
    schema = Schema(kind, text(definition), tuple(properties.items()))
    return digest_of(schema, parsed_schema(schema))


def refusal(definition: Any, kind: SchemaType = T.AVRO, properties: Any = ()) -> str:
    with pytest.raises(InvalidSchema) as refused:
        parsed_schema(Schema(kind, text(definition), tuple(properties)))
    return str(refused.value)


def with_field(**definition: Any) -> dict[str, Any]:
    return {**A, "fields": [{"name": "a", "type": "int", **definition}]}


# Avro: the same -------------------------------------------------------------------------------

SAME = {
    "white space": json.dumps(A, indent=3).encode(),
    "keys in another order": {
        "fields": [{"type": "int", "name": "a"}],
        "name": "R",
        "type": "record",
    },
    "an explanation": {**A, "doc": "what it is"},
    "a field explained": with_field(doc="what it is"),
    "an alias": {**A, "aliases": ["Old"]},
    "a field's alias": with_field(aliases=["b"]),
    "a type in brackets": with_field(type={"type": "int"}),
    "the order that is meant anyway": with_field(order="ascending"),
    "an error": {**A, "type": "error"},
}
OTHER = {
    "a namespace": {**A, "namespace": "n"},
    "a name": {**A, "name": "S"},
    "a default": with_field(default=1),
    "an order": with_field(order="ignore"),
    "a type": with_field(type="long"),
    "a logical type": with_field(type={"type": "int", "logicalType": "date"}),
    "a property": {**A, "made.by": "hand"},
    "another field": {**A, "fields": [*A["fields"], {"name": "b", "type": "int"}]},
}


@pytest.mark.parametrize("definition", SAME.values(), ids=SAME.keys())
def test_definitions_of_the_same_schema(definition: Any) -> None:
    assert digest(definition) == digest(A)


@pytest.mark.parametrize("definition", OTHER.values(), ids=OTHER.keys())
def test_definitions_of_another_schema(definition: Any) -> None:
    assert digest(definition) != digest(A)


def test_full_names_and_namespaces() -> None:
    assert digest({**A, "name": "n.R"}) == digest({**A, "namespace": "n"})
    inner = {"type": "fixed", "name": "F", "size": 2}
    listed = {**A, "namespace": "n", "fields": [{"name": "a", "type": inner}]}
    again = {**listed, "fields": [*listed["fields"], {"name": "b", "type": "F"}]}
    full = {**listed, "fields": [*listed["fields"], {"name": "b", "type": "n.F"}]}
    assert digest(again) == digest(full) != digest(listed)


def test_the_order_of_fields_is_the_order_on_the_wire() -> None:
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]
    assert digest({**A, "fields": fields}) != digest({**A, "fields": fields[::-1]})


def test_json_and_avro_are_not_the_same() -> None:
    assert digest(A, T.JSON) != digest(A, T.AVRO)


def shuffled(definition: Any) -> Any:
    if isinstance(definition, dict):
        return {key: shuffled(definition[key]) for key in reversed(definition)}
    return [shuffled(one) for one in definition] if isinstance(definition, list) else definition


@settings(max_examples=examples(150))
@given(schemas())
def test_any_schema_in_other_words_is_the_same(definition: Any) -> None:
    assert digest(json.dumps(shuffled(definition), indent=1).encode()) == digest(definition)


# Avro: not one ------------------------------------------------------------------------------

BROKEN: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "expected a schema in JSON"),
    "not UTF-8": (b"\xff", "expected a schema in JSON"),
    "no number": (b'{"type": NaN}', "NaN is not a JSON number"),
    "too deep for JSON": (b"[" * 100_000, "nested too deeply"),
    "too deep": (
        b'{"type":"array","items":' * 70 + b'"int"' + b"}" * 70,
        "more than 64 nested types",
    ),
    "a number": (b"5", "must be a name, an object or a list, not 5"),
    "no type": (b"{}", "the schema has no type"),
    "an unknown type": (with_field(type="Foo"), "type 'Foo' is not defined before its use"),
    "no name": ({"type": "record", "fields": []}, "this record has no name"),
    "no fields": ({"type": "record", "name": "R"}, 'record R: expected a list as "fields"'),
    "a name with a blank": ({**A, "name": "a b"}, "invalid name 'a b'"),
    "a namespace with a dash": ({**A, "namespace": "a-b"}, "invalid name 'a-b.R'"),
    "a digit first": ({**A, "name": "1R"}, "invalid name '1R'"),
    "the name of a primitive": ({**A, "name": "int"}, "a record cannot be named int"),
    "a field without a name": ({**A, "fields": [{"type": "int"}]}, "a field has no name"),
    "a field's bad name": (with_field(name="a-b"), "field 'a-b' of R: invalid name"),
    "a field without a type": ({**A, "fields": [{"name": "a"}]}, "field 'a' of R has no type"),
    "a field twice": ({**A, "fields": A["fields"] * 2}, "field 'a' of R is defined twice"),
    "an unknown order": (with_field(order="up"), "its order must be one of"),
    "aliases that are none": (with_field(aliases="b"), "its aliases must be a list of names"),
    "a union in a union": (with_field(type=["null", ["int"]]), "nested directly in another union"),
    "a branch twice": (with_field(type=["int", "int"]), "the union has int twice"),
    "a definition twice": (
        {
            **A,
            "fields": [
                {"name": name, "type": {"type": "fixed", "name": "F", "size": 1}} for name in "ab"
            ],
        },
        "F is defined twice",
    ),
    "an enum without symbols": ({"type": "enum", "name": "E"}, "its symbols must be"),
    "a symbol twice": ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "a duplicate symbol"),
    "a default that is no symbol": (
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
        'its default "B" is not among its symbols',
    ),
    "a fixed without a size": ({"type": "fixed", "name": "F"}, "its size must be"),
    "a negative size": ({"type": "fixed", "name": "F", "size": -1}, "its size must be"),
    "an array of nothing": ({"type": "array"}, "has no type for its items"),
    "a long name": ({**A, "namespace": "n" * 1023}, "its name has more than 1024 characters"),
    "a union at the root": (b'["null", "int"]', "a union must be inside a record"),
}


@pytest.mark.parametrize(("definition", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_avro_schema(definition: Any, words: str) -> None:
    assert words in refusal(definition)


def test_a_union_may_be_the_root_of_json() -> None:
    assert digest(b'["null", "int"]', T.JSON) == digest(b'[ "null", {"type": "int"} ]', T.JSON)


# Others -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [T.STRING, T.BOOLEAN, T.INT64, T.DOUBLE, T.LOCAL_DATE_TIME])
def test_primitive_types_have_no_data(kind: SchemaType) -> None:
    assert digest(b"", kind, __charset="UTF-8") == digest(b"", kind)
    assert "expected no data" in refusal(b"x", kind)


def test_an_empty_text() -> None:
    assert digest(b"null", T.STRING) == digest(b"", T.STRING)
    assert "expected no data" in refusal(b"null", T.INT32)


@pytest.mark.parametrize("kind", [T.AUTO, T.AUTO_CONSUME, T.AUTO_PUBLISH])
def test_what_only_clients_know(kind: SchemaType) -> None:
    assert "used by clients only" in refusal(b"", kind)


def test_external_schemas_are_compared_by_their_bytes() -> None:
    assert digest(b"x", T.EXTERNAL) != digest(b"y", T.EXTERNAL)
    assert (
        parsed_schema(Schema(T.EXTERNAL, b"x")).incompatibility(
            parsed_schema(Schema(T.EXTERNAL, b"y"))
        )
        is None
    )


def test_names_of_types() -> None:
    assert type_named("BYTES") is T.NONE
    with pytest.raises(ValueError, match="KEY_VALUE"):
        type_named("String")


def native(message: str = "p.M", file: str = "f.proto", **more: Any) -> dict[str, Any]:
    files = FileDescriptorSet()
    one = files.file.add(name="f.proto", package="p")
    one.message_type.add(name="M").nested_type.add(name="Inner")
    if more.get("imports"):
        one.dependency.append(more["imports"])
    encoded = base64.b64encode(files.SerializeToString()).decode()
    return {
        "fileDescriptorSet": more.get("set", encoded),
        "rootMessageTypeName": message,
        "rootFileDescriptorName": file,
    }


def test_protobuf_native() -> None:
    kind = T.PROTOBUF_NATIVE
    assert digest(native(), kind) == digest(dict(reversed(native().items())), kind)
    nested = parsed_schema(Schema(kind, text(native("p.M.Inner"))))
    outer = parsed_schema(Schema(kind, text(native())))
    assert nested.incompatibility(outer) == "the root message is p.M.Inner, not p.M"
    assert outer.incompatibility(outer) is None


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (b"zz", "must be JSON with"),
        ({"rootMessageTypeName": "p.M"}, "must be JSON with"),
        (native(set="!!"), "in base64"),
        (native(set=5), "in base64"),
        (native(set="AAAA"), "is not a FileDescriptorSet"),
        (native() | {"rootMessageTypeName": 5}, "names must be texts"),
        (native() | {"rootFileDescriptorName": ["f.proto"]}, "names must be texts"),
        (native(file="g.proto"), "has no file 'g.proto'"),
        (native(message="p.N"), "has no message 'p.N'"),
        (native(message="p.M.N"), "has no message 'p.M.N'"),
        (native(imports="g.proto"), "lacks 'g.proto', which 'f.proto' imports"),
    ],
)
def test_what_is_no_protobuf_native(definition: Any, words: str) -> None:
    assert words in refusal(definition, T.PROTOBUF_NATIVE)


def pair(value: Any, key: str = "STRING", kind: str = "AVRO", encoding: str = "INLINE") -> Schema:
    properties = (
        (key_value.KEY_TYPE, key),
        (key_value.VALUE_TYPE, kind),
        (key_value.ENCODING, encoding),
    )
    return Schema(T.KEY_VALUE, key_value.join(b"", text(value)), properties)


def digest_of_pair(schema: Schema) -> str:
    return digest_of(schema, parsed_schema(schema))


def test_key_and_value_are_compared_one_by_one() -> None:
    first = pair(A)
    assert digest_of_pair(pair(json.dumps(A, indent=1).encode())) == digest_of_pair(first)
    for other in (pair(A, key="INT32"), pair(A, kind="JSON"), pair(A, encoding="SEPARATED")):
        assert digest_of_pair(other) != digest_of_pair(first)
    assert (
        parsed_schema(pair(A, key="INT32")).incompatibility(parsed_schema(first))
        == "the key is INT32, not STRING"
    )
    why = parsed_schema(pair(A)).incompatibility(parsed_schema(pair(with_field(type="long"))))
    assert why == "in the value, field 'a': the reader's type is int, the writer's long"
    assert (
        parsed_schema(pair(with_field(type="long"))).incompatibility(parsed_schema(first)) is None
    )


def test_types_that_are_not_set_are_bytes() -> None:
    definition = Schema(T.KEY_VALUE, struct.pack(">ii", -1, 0))
    assert digest_of_pair(definition) == digest_of_pair(pair(b"", "NONE", "BYTES"))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Schema(T.KEY_VALUE), "each after its length"),
        (Schema(T.KEY_VALUE, b"junk"), "expected a part of"),
        (Schema(T.KEY_VALUE, struct.pack(">ii", 0, -2)), "a part of -2 bytes"),
        (Schema(T.KEY_VALUE, key_value.join(b"", b"") + b"x"), "1 bytes follow"),
        (pair(b"x", kind="STRING"), "expected no data"),
        (pair(b"x", kind="WHAT"), "value.schema.type: 'WHAT' is not a schema type"),
        (pair(b"x", kind="KEY_VALUE"), "cannot contain another one"),
        (pair(b"x", kind="AUTO_CONSUME"), "used by clients only"),
        (pair(A, encoding="BOTH"), "expected one of INLINE, SEPARATED"),
    ],
)
def test_what_is_no_key_value_schema(schema: Schema, words: str) -> None:
    assert words in refusal(schema.data, T.KEY_VALUE, schema.properties)


def test_key_value_as_json() -> None:
    data = pair(A).data
    assert json.loads(key_value.to_json(data)) == {"key": "", "value": A}
    assert (
        key_value.from_json(key_value.to_json(data))
        == pair(json.dumps(A, separators=(",", ":")).encode()).data
    )
    definition = json.dumps({"key": "", "value": json.dumps(A)})
    assert key_value.from_json(definition) == data
    for broken in ("{", "[]", '{"key": ""}'):
        with pytest.raises(InvalidSchema):
            key_value.from_json(broken)


@settings(max_examples=examples(300))
@given(
    st.sampled_from([T.AVRO, T.JSON, T.PROTOBUF_NATIVE, T.KEY_VALUE]),
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["int", "record", "R", "x"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "name", "fields", "items", "values", "symbols", "default"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(lambda definition: json.dumps(definition).encode()),
)
def test_anything_is_a_schema_or_refused(kind: SchemaType, data: bytes) -> None:
    try:
        parsed_schema(Schema(kind, data))
    except InvalidSchema as error:
        assert str(error)
