"""Commands as the generated classes encode and decode them."""

from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from fakes.frames import around, frame_of, located
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto import commands
from magnetar_proto.errors import BadCommand, LocalError


def filled(message: Message) -> Message:
    """With its required fields set to something."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_required:
            continue
        if field.message_type:
            filled(getattr(message, field.name))
        elif field.enum_type:
            setattr(message, field.name, field.enum_type.values[0].number)
        else:
            kind = type(field.default_value).__name__
            setattr(message, field.name, {"str": "x", "bytes": b"x"}.get(kind, 1))
    return message


COMMANDS = [field for field in pb.BaseCommand.DESCRIPTOR.fields if field.message_type]


@pytest.mark.parametrize("field", COMMANDS, ids=lambda field: field.name)
def test_every_command_comes_back(field: Any) -> None:
    message = filled(getattr(pb, field.message_type.name)())
    message.SetInParent()
    kind, buf, start, mid, payload = frame_of(commands.encode(message))
    assert kind == field.number
    assert not payload
    command = commands.decode(buf, start, mid)
    members: dict[str, Any] = {field.name: message}
    assert command == pb.BaseCommand(type=field.number, **members)


@pytest.mark.parametrize("field", COMMANDS, ids=lambda field: field.name)
def test_a_type_without_its_message_is_refused(field: Any) -> None:
    with pytest.raises(BadCommand):
        commands.decode(b"\x08" + bytes((field.number,)), 0, 2)


def test_required_fields_are_required_in_both_directions() -> None:
    with pytest.raises(LocalError):
        commands.encode(pb.CommandSuccess())
    with pytest.raises(BadCommand):
        commands.decode(*located(around(pb.BaseCommand.SUCCESS, b"")))


def test_only_commands_can_be_sent() -> None:
    with pytest.raises(LocalError):
        commands.encode(pb.KeyValue(key="a", value="b"))


@pytest.mark.parametrize(
    "command",
    [b"", b"\x08\x7f", b"\x08\x12", b"\x92\x01\x00", b"\x08\x12\x92\x01\x00\x08\x13\x9a\x01\x00"],
    ids=["empty", "unknown type", "no message", "no type", "two types"],
)
def test_incomplete_commands_are_refused(command: bytes) -> None:
    with pytest.raises(BadCommand):
        commands.decode(*located(command))


@given(st.binary(max_size=60))
def test_noise_is_a_command_or_refused(noise: bytes) -> None:
    try:
        command = commands.decode(*located(noise))
    except BadCommand:
        return
    assert command.IsInitialized()
    assert command.HasField(commands.FIELDS[command.type])


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandLookupTopic(topic="\N{BLACK STAR}", request_id=1),
        pb.CommandProducer(
            topic="t",
            producer_id=1,
            request_id=1,
            metadata=[pb.KeyValue(key="k", value="\N{BLACK STAR}")],
        ),
    ],
)
def test_text_must_be_utf_8(command: Message) -> None:
    star = "\N{BLACK STAR}".encode()
    encoded = commands.encode(command)
    _, buf, start, mid, _ = frame_of(encoded)
    assert commands.decode(buf, start, mid)
    _, buf, start, mid, _ = frame_of(encoded.replace(star, b"\xff" * len(star)))
    with pytest.raises(BadCommand):
        commands.decode(buf, start, mid)
