"""The Avro schema of a Protobuf message, as Java clients generate it."""

from pathlib import PurePosixPath
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

F = FieldDescriptor
_SIMPLE: dict[int, tuple[Any, Any]] = {
    F.CPPTYPE_BOOL: ("boolean", False),
    F.CPPTYPE_FLOAT: ("float", 0.0),
    F.CPPTYPE_DOUBLE: ("double", 0.0),
    F.CPPTYPE_INT32: ("int", 0),
    F.CPPTYPE_UINT32: ("int", 0),
    F.CPPTYPE_INT64: ("long", 0),
    F.CPPTYPE_UINT64: ("long", 0),
}
"""The Avro type and the default value of a field, by its C++ type."""


def avro_of(descriptor: Any) -> dict[str, Any]:
    """Return the definition of a message type."""
    made: dict[str, Any] = _record(descriptor, set())
    return made


def _record(descriptor: Descriptor, known: set[str]) -> Any:
    namespace = _namespace(descriptor.file, descriptor.containing_type)
    full_name = f"{namespace}.{descriptor.name}"
    if descriptor.full_name in known:
        return full_name
    known.add(descriptor.full_name)
    fields = [_field(field, known) for field in descriptor.fields]
    return {"type": "record", "name": descriptor.name, "namespace": namespace, "fields": fields}


def _field(field: FieldDescriptor, known: set[str]) -> dict[str, Any]:
    kind, default = _type(field, known)
    if field.is_repeated:
        return {"name": field.name, "type": {"type": "array", "items": kind}, "default": []}
    if field.is_required:
        return {"name": field.name, "type": kind}
    if field.has_default_value and field.cpp_type in _SIMPLE:
        default = field.default_value
    return {"name": field.name, "type": kind, "default": default}


def _type(field: FieldDescriptor, known: set[str]) -> tuple[Any, Any]:
    """Return the Avro type of one value of the field, with its default."""
    if field.message_type is not None:
        record = _record(field.message_type, known)
        is_optional = not (field.is_repeated or field.is_required)
        return (["null", record] if is_optional else record), None
    if field.enum_type is not None:
        return _enum(field.enum_type, known), field.enum_type.values[0].name
    if field.type == F.TYPE_BYTES:
        return "bytes", ""
    if field.type == F.TYPE_STRING:
        return {"type": "string", "avro.java.string": "String"}, ""
    return _SIMPLE[field.cpp_type]


def _enum(descriptor: EnumDescriptor, known: set[str]) -> Any:
    namespace = _namespace(descriptor.file, descriptor.containing_type)
    if descriptor.full_name in known:
        return f"{namespace}.{descriptor.name}"
    known.add(descriptor.full_name)
    symbols = [value.name for value in descriptor.values]
    return {"type": "enum", "name": descriptor.name, "namespace": namespace, "symbols": symbols}


def _namespace(file: FileDescriptor, containing: Descriptor | None) -> str:
    """Return the Java class or package that contains the class of a type."""
    about = FileDescriptorProto()
    file.CopyToProto(about)
    options = about.options
    classes: list[str] = []
    while containing is not None:
        classes.insert(0, containing.name)
        containing = containing.containing_type
    if not options.java_multiple_files:
        stem = PurePosixPath(file.name).stem
        words = stem.replace("-", "_").split("_")
        named = "".join(word[:1].upper() + word[1:] for word in words)
        classes.insert(0, options.java_outer_classname or named)
    package = options.java_package or file.package
    return ".".join(part for part in (package, "$".join(classes)) if part)
