"""Protobuf: messages of generated classes."""

import base64
import json
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message

from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.base import Schema
from magnetar.schema.protobuf_avro import avro_of
from magnetar_proto import PulsarApi_pb2 as pb

M = TypeVar("M", bound=Message)


class _Generated(Schema[M], Generic[M]):
    def __init__(self, kind: type[M]) -> None:
        if not (isinstance(kind, type) and issubclass(kind, Message)):
            raise ValueError(f"expected a class that protoc has generated, got {kind!r}")
        self._kind = kind

    def encode(self, value: M) -> bytes:
        if not isinstance(value, self._kind):
            raise ValueError(f"expected {self._kind.__name__}, got {value!r}")
        try:
            return value.SerializeToString()
        except Exception as error:  # a required field is missing, or a text is invalid
            raise ValueError(f"the {self._kind.__name__} cannot be encoded: {error}") from error

    def decode(self, data: bytes) -> M:
        return self._kind.FromString(data)


class ProtobufNative(_Generated[M], Generic[M]):
    """Messages of a generated class; the broker receives its descriptor (PROTOBUF_NATIVE)."""

    def __init__(self, kind: type[M]) -> None:
        super().__init__(kind)
        self.info = SchemaInfo(
            pb.Schema.ProtobufNative, native_definition(kind.DESCRIPTOR), "PROTOBUF_NATIVE"
        )


class Protobuf(_Generated[M], Generic[M]):
    """Messages of a generated class; the broker receives an Avro schema of it (PROTOBUF)."""

    def __init__(self, kind: type[M]) -> None:
        super().__init__(kind)
        definition = json.dumps(avro_of(kind.DESCRIPTOR)).encode()
        self.info = SchemaInfo(pb.Schema.Protobuf, definition, "PROTOBUF")


def native_definition(descriptor: Any) -> bytes:
    """Return the definition of a message type for the broker: its file with all imported ones."""
    files: dict[str, FileDescriptor] = {}
    _collect(descriptor.file, files)
    everything = FileDescriptorSet()
    for file in files.values():
        file.CopyToProto(everything.file.add())
    return json.dumps(
        {
            "fileDescriptorSet": base64.b64encode(everything.SerializeToString()).decode(),
            "rootMessageTypeName": descriptor.full_name,
            "rootFileDescriptorName": descriptor.file.name,
        }
    ).encode()


def _collect(file: FileDescriptor, files: dict[str, FileDescriptor]) -> None:
    if file.name not in files:
        for imported in file.dependencies:
            _collect(imported, files)
        files[file.name] = file


def dynamic_class(definition: bytes) -> type[Message]:
    """Create a class for the messages of a stored definition; any error if it is invalid."""
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415 (rarely needed)
    from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415

    about: dict[str, Any] = json.loads(definition)
    everything = FileDescriptorSet.FromString(base64.b64decode(about["fileDescriptorSet"]))
    left: dict[str, FileDescriptorProto] = {file.name: file for file in everything.file}
    pool = DescriptorPool()

    def add(name: str) -> None:
        file = left.pop(name, None)
        if file is not None:
            for imported in file.dependency:
                add(imported)
            pool.Add(file)

    for name in list(left):
        add(name)
    return GetMessageClass(pool.FindMessageTypeByName(about["rootMessageTypeName"]))
