"""Pairs: as Java's client writes them, and parts that are missing."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.schema.records_of import Item
from effort import examples
from fakes.client_entries import entry_of
from magnetar.messages import Outgoing
from magnetar.schema import Avro, Int32, Json, KeyValue, String
from magnetar.schema.key_value import join, parts, split
from magnetar_broker.schemas import key_value as broker_side
from magnetar_broker.schemas.types import Schema as BrokerSchema
from magnetar_broker.schemas.types import SchemaType

PAIR = KeyValue(Int32(), String())


def test_both_parts_behind_their_lengths() -> None:
    assert PAIR.encode((1, "a")).hex() == "00000004000000010000000161"
    assert PAIR.encode((None, "a")).hex() == "ffffffff0000000161"  # type: ignore[arg-type]
    assert PAIR.decode(PAIR.encode((1, "a"))) == (1, "a")
    assert PAIR.decode(bytes.fromhex("ffffffffffffffff")) == (None, None)


PARTS = st.none() | st.binary(max_size=20)


@settings(max_examples=examples(300))
@given(PARTS, PARTS)
def test_what_is_joined_is_split(key: bytes | None, value: bytes | None) -> None:
    assert split(join(key, value)) == (key, value)


@settings(max_examples=examples(300))
@given(st.binary(max_size=30))
def test_other_bytes_are_parts_or_errors(data: bytes) -> None:
    try:
        found = split(data)
    except ValueError:
        return
    assert data.startswith(join(*found)) or len(data) < 8


def test_the_broker_understands_the_definition() -> None:
    kind = KeyValue(String(), Avro(Item), "separated")
    properties = tuple(sorted(kind.info.properties.items()))
    parsed = broker_side.parse(BrokerSchema(SchemaType.KEY_VALUE, kind.info.definition, properties))
    assert (parsed.key.type, parsed.value.type) == (SchemaType.STRING, SchemaType.AVRO)
    assert parsed.encoding == "SEPARATED"
    key, value, encoding = parts(kind.info)
    assert (key.type_name, value.type_name, encoding) == ("STRING", "AVRO", "separated")
    assert json.loads(value.definition)["name"] == "Item"


def test_separated_keys_are_those_of_messages() -> None:
    kind = KeyValue(Int32(), String(), "separated")
    sent = kind.encode_message(Outgoing((1, "a"), properties={"p": "q"}))
    assert (sent.key, sent.value, sent.is_null) == (b"\0\0\0\1", b"a", False)
    assert sent.properties == {"p": "q"}
    gone = kind.encode_message(Outgoing((1, None)))  # type: ignore[arg-type]
    assert (gone.key, gone.is_null) == (b"\0\0\0\1", True)
    for outgoing, value in ((sent, (1, "a")), (gone, (1, None))):
        entry = entry_of([outgoing])
        entry.reader = kind
        [message] = entry.messages()
        assert message.value == value


def test_what_is_no_pair_is_refused() -> None:
    for value in (5, (1, 2, 3), [1, "a"]):
        with pytest.raises(ValueError, match="expected a tuple of key and value"):
            PAIR.encode(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="key of the message"):
        KeyValue(Int32(), String(), "separated").encode_message(Outgoing((1, "a"), key="k"))
    with pytest.raises(ValueError, match="'odd' is unknown; known are inline, separated"):
        KeyValue(Int32(), String(), "odd")


def test_parts_are_read_by_the_schemas_they_were_written_with() -> None:
    kind = KeyValue(String(), Avro(Item))
    assert kind.needs_writer
    assert not KeyValue(String(), Json(Item)).needs_writer
    older = Avro(definition={
        "type": "record", "name": "Item", "fields": [{"name": "name", "type": "string"}]
    })  # fmt: skip
    wrote = KeyValue(String(), older)
    data = wrote.encode(("k", {"name": "a"}))
    assert kind.reading(wrote.info).decode(data) == ("k", Item("a", 0.5))
    with pytest.raises(ValueError, match="not KEY_VALUE"):
        kind.reading(String.info)
