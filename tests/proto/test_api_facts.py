"""The generated classes compared with the facts of the protocol, in both directions."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from magnetar_proto import PulsarApi_pb2 as pb

FACTS: dict[str, Any] = json.loads(Path(__file__).with_name("protocol_facts.json").read_text())
FILE = pb.DESCRIPTOR
# None is reserved in Python; names are not sent on the wire.
RENAMED = {("Schema.Type", "None"): "NoSchema"}
OWN = 1000
"""The lowest number of our own fields, which are named magnetar_*."""
TYPES = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in ["bool", "bytes", "double", "int32", "int64", "string", "uint32", "uint64"]
}


def label(field: FieldDescriptor) -> str:
    if field.is_required:
        return "required"
    return "repeated" if field.is_repeated else "optional"


def type_name(field: FieldDescriptor) -> str:
    target = field.message_type or field.enum_type
    return target.full_name.removeprefix("pulsar.proto.") if target else TYPES[field.type]


def default(field: FieldDescriptor) -> Any:
    if not field.has_default_value:
        return None
    if field.enum_type:
        return field.enum_type.values_by_number[field.default_value].name
    return field.default_value


def facts_of(message: Descriptor) -> list[list[Any]]:
    return [
        [field.name, field.number, label(field), type_name(field), default(field)]
        for field in message.fields
        if field.number < OWN
    ]


def all_enums() -> dict[str, EnumDescriptor]:
    enums = dict(FILE.enum_types_by_name)
    for name, message in FILE.message_types_by_name.items():
        enums |= {f"{name}.{short}": enum for short, enum in message.enum_types_by_name.items()}
    return enums


def test_no_message_is_missing_and_none_is_ours_alone() -> None:
    assert set(FILE.message_types_by_name) == set(FACTS["messages"])


@pytest.mark.parametrize("name", FACTS["messages"])
def test_fields(name: str) -> None:
    expected = sorted(FACTS["messages"][name], key=lambda fact: fact[1])
    actual = sorted(facts_of(FILE.message_types_by_name[name]), key=lambda fact: fact[1])
    assert actual == expected


def test_own_fields_are_optional_and_have_names_and_numbers_of_their_own() -> None:
    fields = [one for message in FILE.message_types_by_name.values() for one in message.fields]
    own = [one for one in fields if one.name.startswith("magnetar_")]
    assert own == [one for one in fields if one.number >= OWN]
    assert {label(one) for one in own} == {"optional"}


def test_no_enum_is_missing_and_none_is_ours_alone() -> None:
    assert set(all_enums()) == set(FACTS["enums"])


@pytest.mark.parametrize("name", FACTS["enums"])
def test_enum_values(name: str) -> None:
    expected = {RENAMED.get((name, key), key): n for key, n in FACTS["enums"][name].items()}
    assert {value.name: value.number for value in all_enums()[name].values} == expected


def test_package_and_absence_of_nested_messages() -> None:
    assert FILE.package == "pulsar.proto"
    assert not any(message.nested_types for message in FILE.message_types_by_name.values())


def test_a_command_type_is_the_number_of_its_field() -> None:
    fields: dict[int, Any] = {
        field.number: field for field in pb.BaseCommand.DESCRIPTOR.fields if field.message_type
    }
    actual = [
        [value.name, value.number, fields[value.number].name, type_name(fields[value.number])]
        for value in pb.BaseCommand.Type.DESCRIPTOR.values
    ]
    assert actual == [command[:4] for command in FACTS["commands"]]
    assert len(fields) == len(actual)
