"""Schemas of numbers and text."""

import struct
from typing import ClassVar

from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.base import Schema
from magnetar_proto import PulsarApi_pb2 as pb


class String(Schema[str]):
    """A schema of text in UTF-8."""

    info = SchemaInfo(pb.Schema.String, name="String")

    def encode(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise ValueError(f"expected a str (schema String), got {value!r}")
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()


class Bool(Schema[bool]):
    """A schema of booleans in one byte, 1 or 0."""

    info = SchemaInfo(pb.Schema.Bool, name="Boolean")

    def encode(self, value: bool) -> bytes:
        if not isinstance(value, bool):
            raise ValueError(f"expected True or False (schema Bool), got {value!r}")
        return b"\1" if value else b"\0"

    def decode(self, data: bytes) -> bool:
        (value,) = sized(data, 1)
        return value != 0


class _Integer(Schema[int]):
    size: ClassVar[int]

    def encode(self, value: int) -> bytes:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"expected an int (schema {type(self).__name__}), got {value!r}")
        try:
            return value.to_bytes(self.size, "big", signed=True)
        except OverflowError:
            highest = 2 ** (8 * self.size - 1) - 1
            raise ValueError(
                f"{value} is outside of {-highest - 1} to {highest} (schema {type(self).__name__})"
            ) from None

    def decode(self, data: bytes) -> int:
        return int.from_bytes(sized(data, self.size), "big", signed=True)


class Int8(_Integer):
    """A schema of one-byte integers."""

    info = SchemaInfo(pb.Schema.Int8, name="INT8")
    size = 1


class Int16(_Integer):
    """A schema of two-byte integers, big-endian."""

    info = SchemaInfo(pb.Schema.Int16, name="INT16")
    size = 2


class Int32(_Integer):
    """A schema of four-byte integers, big-endian."""

    info = SchemaInfo(pb.Schema.Int32, name="INT32")
    size = 4


class Int64(_Integer):
    """A schema of eight-byte integers, big-endian."""

    info = SchemaInfo(pb.Schema.Int64, name="INT64")
    size = 8


class _Floating(Schema[float]):
    form: ClassVar[struct.Struct]

    def encode(self, value: float) -> bytes:
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise ValueError(f"expected a number (schema {type(self).__name__}), got {value!r}")
        try:
            return self.form.pack(value)
        except (struct.error, OverflowError):
            raise ValueError(f"{value!r} is too large (schema {type(self).__name__})") from None

    def decode(self, data: bytes) -> float:
        value: float = self.form.unpack(sized(data, self.form.size))[0]
        return value


class Float(_Floating):
    """A schema of four-byte IEEE 754 numbers; the value is rounded."""

    info = SchemaInfo(pb.Schema.Float, name="Float")
    form = struct.Struct(">f")


class Double(_Floating):
    """A schema of eight-byte IEEE 754 numbers."""

    info = SchemaInfo(pb.Schema.Double, name="Double")
    form = struct.Struct(">d")


def sized(data: bytes, size: int) -> bytes:
    """Return the data if it has `size` bytes; else raise ValueError."""
    if len(data) != size:
        raise ValueError(f"expected {size} bytes but got {len(data)}")
    return data
