"""PROTOBUF_NATIVE: JSON with a FileDescriptorSet and the name of the message in it."""

import json
from binascii import Error as BadBase64
from typing import NamedTuple

from magnetar_broker.schemas.types import InvalidSchema

SET, FILE, MESSAGE = "fileDescriptorSet", "rootFileDescriptorName", "rootMessageTypeName"


class NativeSchema(NamedTuple):
    """A message type, with the files that describe it."""

    message: str
    """The full name of the message."""
    file: str
    descriptors: bytes
    """An encoded FileDescriptorSet."""


def parse(text: bytes) -> NativeSchema:
    """Return the message that a text describes; InvalidSchema if it describes none."""
    import base64  # noqa: PLC0415 (not for the start)

    try:
        fields = json.loads(text)
        message, file, encoded = fields[MESSAGE], fields[FILE], fields[SET]
        descriptors = base64.b64decode(encoded, validate=True)
        if not (isinstance(message, str) and isinstance(file, str)):
            raise TypeError("names must be texts")
    except (ValueError, RecursionError, KeyError, TypeError, BadBase64) as error:
        raise InvalidSchema(
            f"it must be JSON with {MESSAGE}, {FILE} and {SET} in base64: {error!r}"
        ) from error
    _check(message, file, descriptors)
    return NativeSchema(message, file, descriptors)


def _check(message: str, file: str, descriptors: bytes) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        files = {one.name: one for one in FileDescriptorSet.FromString(descriptors).file}
    except DecodeError as error:
        raise InvalidSchema(f"{SET} is not a FileDescriptorSet: {error}") from error
    if file not in files:
        raise InvalidSchema(f"{SET} has no file {file!r}, which {FILE} names")
    for one in files.values():
        lacking = next((name for name in one.dependency if name not in files), None)
        if lacking is not None:
            raise InvalidSchema(f"{SET} lacks {lacking!r}, which {one.name!r} imports")
    package = files[file].package
    inner = message.removeprefix(f"{package}.") if package else message
    level = files[file].message_type
    for name in inner.split("."):
        found = next((one for one in level if one.name == name), None)
        if found is None:
            raise InvalidSchema(f"{file!r} has no message {message!r}, which {MESSAGE} names")
        level = found.nested_type
