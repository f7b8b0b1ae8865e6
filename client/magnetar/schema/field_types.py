"""The types of fields: their Avro types, and the conversion of values to plain values and back.

Plain values are those that JSON and fastavro accept: numbers, text, lists, dicts.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from functools import cached_property, lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin
from uuid import UUID

from magnetar.schema.classes import AvroType, Field, fields_of, is_record, made, unwrapped
from magnetar.schema.times import (
    DAY,
    EPOCH,
    FIRST_DAY,
    MICROSECOND,
    aware,
    day_of,
    local_time,
    micros_of_day,
    time_of_day,
)

Names = dict[str, object]
"""The classes defined so far, by name; later uses refer to the name."""


class FieldType(ABC):
    """The type of a field; both conversions raise ValueError for a value that does not fit."""

    @abstractmethod
    def definition(self, names: Names) -> Any:
        """Return the Avro type, as in Avro's JSON."""

    @abstractmethod
    def to_plain(self, value: Any, /) -> Any:
        """Convert a value of the application to a plain value."""

    @abstractmethod
    def from_plain(self, plain: Any, /) -> Any:
        """Convert a received plain value to a value of the application."""


class Null(FieldType):
    """Avro's type for None."""

    def definition(self, names: Names) -> Any:
        return "null"

    def to_plain(self, value: Any) -> Any:
        if value is not None:
            raise ValueError(f"expected None, got {value!r}")
        return None

    from_plain = to_plain


class Truth(FieldType):
    """The type of True and False."""

    def definition(self, names: Names) -> Any:
        return "boolean"

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, bool):
            raise ValueError(f"expected a bool, got {value!r}")
        return value

    from_plain = to_plain


class Whole(FieldType):
    """The type of int, with 32 bits (int) or 64 bits (long)."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._limit = 2**31 if name == "int" else 2**63

    def definition(self, names: Names) -> Any:
        return self._name

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"expected an int, got {value!r}")
        if not -self._limit <= value < self._limit:
            raise ValueError(f"{value} does not fit in an Avro {self._name}")
        return value

    from_plain = to_plain


class Real(FieldType):
    """The type of float, with 32 bits (float) or 64 bits (double)."""

    def __init__(self, name: str, is_json: bool) -> None:
        self._name = name
        self._is_json = is_json

    def definition(self, names: Names) -> Any:
        return self._name

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise ValueError(f"expected a number, got {value!r}")
        if self._is_json and not math.isfinite(value):
            raise ValueError(f"{value!r} cannot be written in JSON")
        return float(value)

    def from_plain(self, plain: Any) -> Any:
        if not isinstance(plain, float | int) or isinstance(plain, bool):
            raise ValueError(f"expected a number, got {plain!r}")
        return float(plain)


class Text(FieldType):
    """Avro's type for str."""

    def definition(self, names: Names) -> Any:
        return "string"

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"expected a str, got {value!r}")
        return value

    def from_plain(self, plain: Any) -> Any:
        return plain.decode() if isinstance(plain, bytes) else self.to_plain(plain)


class Binary(FieldType):
    """The type of bytes; in JSON they are UTF-8 text, as in the official Python client."""

    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json

    def definition(self, names: Names) -> Any:
        return "bytes"

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, bytes):
            raise ValueError(f"expected bytes, got {value!r}")
        if not self._is_json:
            return value
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(
                f"expected UTF-8, which JSON requires, got {value!r}: use Avro"
            ) from None

    def from_plain(self, plain: Any) -> Any:
        if isinstance(plain, str):
            return plain.encode()
        if not isinstance(plain, bytes):
            raise ValueError(f"expected bytes, got {plain!r}")
        return plain


class Logical(FieldType):
    """Avro's type for a Python type that is stored as a number or text with a logical type."""

    def __init__(
        self,
        kind: type,
        definition: Mapping[str, str],
        to_plain: Callable[[Any], Any],
        from_plain: Callable[[Any], Any],
    ) -> None:
        self._kind = kind
        self._definition = dict(definition)
        self._to_plain = to_plain
        self._from_plain = from_plain

    def definition(self, names: Names) -> Any:
        return dict(self._definition)

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            raise ValueError(f"expected {self._kind.__name__}, got {value!r}")
        return self._to_plain(value)

    def from_plain(self, plain: Any) -> Any:
        if isinstance(plain, self._kind):  # fastavro knows these as well
            return plain
        text = self._definition["type"] == "string"
        if not isinstance(plain, str if text else int) or isinstance(plain, bool):
            raise ValueError(f"expected {self._kind.__name__}, got {plain!r}")
        return self._from_plain(plain)


class Member(FieldType):
    """Avro's type for members of an enum, which are written as names."""

    def __init__(self, kind: type[Enum]) -> None:
        self._kind = kind

    def definition(self, names: Names) -> Any:
        if _is_named(names, self._kind):
            return self._kind.__name__
        symbols = [member.name for member in self._kind]
        return {"type": "enum", "name": self._kind.__name__, "symbols": symbols}

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, self._kind):
            raise ValueError(f"expected {self._kind.__name__}, got {value!r}")
        return value.name

    def from_plain(self, plain: Any) -> Any:
        if isinstance(plain, str) and plain in self._kind.__members__:
            return self._kind[plain]
        return self._kind(plain)  # the official Python client writes the member's value in JSON


class Items(FieldType):
    """Avro's type for lists."""

    def __init__(self, item: FieldType) -> None:
        self._item = item

    def definition(self, names: Names) -> Any:
        return {"type": "array", "items": self._item.definition(names)}

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {value!r}")
        return [self._item.to_plain(item) for item in value]

    def from_plain(self, plain: Any) -> Any:
        if not isinstance(plain, list):
            raise ValueError(f"expected a list, got {plain!r}")
        return [self._item.from_plain(item) for item in plain]


class Keyed(FieldType):
    """The type of dicts with text keys."""

    def __init__(self, value: FieldType) -> None:
        self._value = value

    def definition(self, names: Names) -> Any:
        return {"type": "map", "values": self._value.definition(names)}

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise ValueError(f"expected a dict with str as keys, got {value!r}")
        return {key: self._value.to_plain(one) for key, one in value.items()}

    def from_plain(self, plain: Any) -> Any:
        if not isinstance(plain, dict):
            raise ValueError(f"expected a dict, got {plain!r}")
        return {key: self._value.from_plain(one) for key, one in plain.items()}


class OneOf(FieldType):
    """A union, whose first type that fits is used."""

    def __init__(self, branches: list[FieldType]) -> None:
        self.branches = branches
        if sum(isinstance(branch, Record | Keyed) for branch in branches) > 1:
            raise ValueError("a union of several classes or dicts cannot be told apart in messages")

    def definition(self, names: Names) -> Any:
        return [branch.definition(names) for branch in self.branches]

    def to_plain(self, value: Any) -> Any:
        return self._first(lambda branch: branch.to_plain(value), value)

    def from_plain(self, plain: Any) -> Any:
        return self._first(lambda branch: branch.from_plain(plain), plain)

    def with_first(self, value: Any) -> "OneOf":
        """Return the union with the type of this value first, as Avro requires for a default."""
        for branch in self.branches:
            try:
                branch.to_plain(value)
            except ValueError:
                continue
            return OneOf([branch, *(other for other in self.branches if other is not branch)])
        return self

    def _first(self, convert: Callable[[FieldType], Any], value: Any) -> Any:
        errors = []
        for branch in self.branches:
            try:
                return convert(branch)
            except ValueError as error:
                if not isinstance(branch, Null):
                    errors.append(str(error))
        raise ValueError(errors[0] if len(errors) == 1 else f"{value!r} fits no type of the union")


class Custom(FieldType):
    """The type of a field with an AvroType, which fastavro converts alone."""

    def __init__(self, definition: Any) -> None:
        self._definition = definition

    def definition(self, names: Names) -> Any:
        return self._definition

    def to_plain(self, value: Any) -> Any:
        return value

    from_plain = to_plain


class Record(FieldType):
    """The type of a class with fields."""

    def __init__(self, kind: type, is_json: bool) -> None:
        self.kind = kind
        self._is_json = is_json

    @cached_property
    def _fields(self) -> list[tuple[Field, FieldType]]:
        # On first use only: a class may have fields of its own type.
        found = []
        for field in fields_of(self.kind):
            try:
                found.append((field, field_type(field.type, self._is_json)))
            except ValueError as error:
                raise ValueError(f"{self.kind.__name__}.{field.name}: {error}") from None
        return found

    def definition(self, names: Names) -> Any:
        if _is_named(names, self.kind):
            return self.kind.__name__
        fields = [_field_definition(field, kind, names) for field, kind in self._fields]
        return {"type": "record", "name": self.kind.__name__, "fields": fields}

    def to_plain(self, value: Any) -> Any:
        if not isinstance(value, self.kind):
            raise ValueError(f"expected {self.kind.__name__}, got {value!r}")
        plain = {}
        for field, kind in self._fields:
            try:
                plain[field.name] = kind.to_plain(getattr(value, field.name))
            except ValueError as error:
                raise ValueError(f"{self.kind.__name__}.{field.name}: {error}") from None
        return plain

    def from_plain(self, plain: Any) -> Any:
        if not isinstance(plain, dict):
            raise ValueError(f"expected {self.kind.__name__}, got {plain!r}")
        values = {}
        for field, kind in self._fields:
            if field.name not in plain and field.default is not None:
                continue
            try:
                values[field.name] = self._received(plain, field.name, kind)
            except ValueError as error:
                raise ValueError(f"{self.kind.__name__}.{field.name}: {error}") from None
        return made(self.kind, values)

    def _received(self, plain: dict[str, Any], name: str, kind: FieldType) -> Any:
        if name in plain:
            return kind.from_plain(plain[name])
        if isinstance(kind, OneOf) and any(isinstance(one, Null) for one in kind.branches):
            return None
        raise ValueError("it is missing, and has no default")


def _field_definition(field: Field, kind: FieldType, names: Names) -> dict[str, Any]:
    if field.default is None:
        return {"name": field.name, "type": kind.definition(names)}
    value = field.default()
    if isinstance(kind, OneOf):
        kind = kind.with_first(value)
    default = _as_default(kind.to_plain(value))
    return {"name": field.name, "default": default, "type": kind.definition(names)}


def _as_default(plain: Any) -> Any:
    """Return a default in the form of Avro's JSON: bytes by their numbers."""
    if isinstance(plain, bytes):
        return plain.decode("latin-1")
    if isinstance(plain, list):
        return [_as_default(item) for item in plain]
    if isinstance(plain, dict):
        return {key: _as_default(item) for key, item in plain.items()}
    return plain


def _is_named(names: Names, kind: type) -> bool:
    known = names.setdefault(kind.__name__, None)
    if known is None:
        names[kind.__name__] = kind
        return False
    if known is not kind:
        raise ValueError(f"two classes have the name {kind.__name__}: Avro needs them to differ")
    return True


@lru_cache(maxsize=4096)
def field_type(annotation: Any, is_json: bool) -> FieldType:
    """Return the type of an annotation; ValueError if messages cannot have such fields."""
    kind, chosen = unwrapped(annotation)
    if chosen is not None:
        return _chosen(kind, chosen, is_json)
    if is_record(kind):
        return Record(kind, is_json)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Member(kind)
    if kind in _SIMPLE:
        return _SIMPLE[kind](is_json)
    composed = _composed(get_origin(kind), get_args(kind), is_json)
    if composed is not None:
        return composed
    raise ValueError(
        f"{annotation!r} has no Avro type: use bool, int, float, str, bytes, date, time, datetime, "
        "UUID, an Enum, a class with fields, list, dict with str keys, X | None, or "
        "Annotated[..., AvroType(...)]"
    )


def _composed(origin: Any, inner: tuple[Any, ...], is_json: bool) -> FieldType | None:
    if origin in (Union, UnionType):
        # null comes first, as in the official Python client.
        ordered = sorted(inner, key=lambda one: one is not NoneType)
        return OneOf([field_type(one, is_json) for one in ordered])
    if origin is list:
        return Items(field_type(inner[0], is_json))
    if origin is dict and inner[0] is str:
        return Keyed(field_type(inner[1], is_json))
    return None


def _chosen(kind: Any, chosen: AvroType, is_json: bool) -> FieldType:
    name = chosen.definition
    if kind is int and name in ("int", "long"):
        return Whole(str(name))
    if kind is float and name in ("float", "double"):
        return Real(str(name), is_json)
    if is_json:
        raise ValueError(f"an AvroType of {name!r} needs the schema Avro, not Json")
    return Custom(name)


_MOMENT = Logical(
    datetime,
    {"type": "long", "logicalType": "timestamp-micros"},
    lambda moment: (aware(moment) - EPOCH) // MICROSECOND,
    lambda micros: EPOCH + timedelta(microseconds=micros),
)
_DAY = Logical(
    date, {"type": "int", "logicalType": "date"}, day_of, lambda days: FIRST_DAY + days * DAY
)
_TIME_OF_DAY = Logical(
    time,
    {"type": "long", "logicalType": "time-micros"},
    lambda value: micros_of_day(local_time(value)),
    time_of_day,
)
_UUID = Logical(UUID, {"type": "string", "logicalType": "uuid"}, str, UUID)

_SIMPLE: dict[Any, Callable[[bool], FieldType]] = {
    NoneType: lambda _: Null(),
    bool: lambda _: Truth(),
    int: lambda _: Whole("long"),
    float: lambda is_json: Real("double", is_json),
    str: lambda _: Text(),
    bytes: Binary,
    datetime: lambda _: _MOMENT,
    date: lambda _: _DAY,
    time: lambda _: _TIME_OF_DAY,
    UUID: lambda _: _UUID,
}
