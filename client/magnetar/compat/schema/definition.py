"""Records of the official client: classes whose fields are declared by objects.

Their Avro definition is that of the official client, so that both can share topics.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar

Names = set[str]
"""The names of the records and enums defined so far: a later use refers to the name."""


class Field:
    """A field of a record; its subclasses are the types of Avro.

    `default` is the value in a record that is created without one; it is in the definition with
    `required_default`.  A field is null or a value unless it is `required`.
    """

    _type: ClassVar[str]
    _accepts: ClassVar[tuple[builtins.type, ...]]
    _none_is_default: ClassVar[bool] = True
    """Whether None stands for the default, and is refused if the field is required."""

    def __init__(
        self, default: Any = None, required: bool = False, required_default: bool = False
    ) -> None:
        self._required = required
        self._required_default = required_default
        self._default = None
        if default is not None:
            self._default = self.validate_type("default", default)

    def type(self) -> str:
        """Return the name of the field's Avro type."""
        return self._type

    def python_type(self) -> Any:
        """Return the Python type of the field's values, or a tuple of types."""
        return self._accepts[0] if len(self._accepts) == 1 else self._accepts

    def validate_type(self, name: str, val: Any) -> Any:
        """Return the value for a record; TypeError, with the field's name, if it does not fit."""
        if val is not None:
            return self._converted(name, val)
        if not self._none_is_default:
            return None
        if self._required:
            raise _misfit(name, val, self.type())
        return self.default()

    def _converted(self, name: str, val: Any) -> Any:
        if not isinstance(val, self._accepts):
            raise _misfit(name, val, self.type())
        return val

    def default(self) -> Any:
        """Return the value of the field in a new record."""
        return self._default

    def required_default(self) -> bool:
        """Tell whether the definition includes the default."""
        return self._required_default

    def schema(self) -> Any:
        """Return the Avro definition of the field's type."""
        return self.schema_info(set())

    def schema_info(self, defined_names: Names) -> Any:
        """Return the Avro definition; types in `defined_names` are only named, new ones added."""
        return self.type()


class Null(Field):
    """A field whose only value is None."""

    _type = "null"
    _accepts = (builtins.type(None),)

    def validate_type(self, name: str, val: Any) -> None:
        if val is not None:
            raise _misfit(name, val, "None")


class Boolean(Field):
    """A field of True or False; False by default."""

    _type = "boolean"
    _accepts = (bool,)

    def default(self) -> bool:
        return bool(self._default)


class Integer(Field):
    """A field of 32-bit integers."""

    _type = "int"
    _accepts = (int,)


class Long(Field):
    """A field of 64-bit integers."""

    _type = "long"
    _accepts = (int,)


class Float(Field):
    """A field of 32-bit floating-point numbers."""

    _type = "float"
    _accepts = (float, int)


class Double(Field):
    """A field of 64-bit floating-point numbers."""

    _type = "double"
    _accepts = (float, int)


class Bytes(Field):
    """A field of bytes; text is encoded as UTF-8."""

    _type = "bytes"
    _accepts = (bytes, str)
    _none_is_default = False

    def _converted(self, name: str, val: Any) -> Any:
        if isinstance(val, bytearray):
            return val
        val = super()._converted(name, val)
        return val.encode() if isinstance(val, str) else val


class String(Field):
    """A field of text; bytes are decoded as UTF-8."""

    _type = "string"
    _accepts = (str, bytes)

    def _converted(self, name: str, val: Any) -> Any:
        val = super()._converted(name, val)
        return val.decode() if isinstance(val, bytes) else val


class CustomEnum(Field):
    """A field of members of an enum, also by name or value; the definition has the names."""

    _type = "enum"
    _none_is_default = False

    def __init__(
        self,
        enum_type: builtins.type[Enum],
        default: Any = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        if not (isinstance(enum_type, type) and issubclass(enum_type, Enum)):
            raise TypeError(f"CustomEnum needs a subclass of Enum, got {enum_type!r}")
        self.enum_type = enum_type
        super().__init__(default, required, required_default)

    def python_type(self) -> Any:
        return self.enum_type

    def _converted(self, name: str, val: Any) -> Enum:
        if isinstance(val, self.enum_type):
            return val
        if isinstance(val, str) and val in self.enum_type.__members__:
            return self.enum_type[val]
        try:
            return self.enum_type(val)
        except ValueError:
            raise _misfit(name, val, f"a member of {self.enum_type.__name__}") from None

    def schema_info(self, defined_names: Names) -> Any:
        name = self.enum_type.__name__
        if name in defined_names:
            return name
        defined_names.add(name)
        symbols = [member.name for member in self.enum_type]
        return {"type": self.type(), "name": name, "symbols": symbols}


class Array(Field):
    """A field of lists, whose items are values of a field or records."""

    _type = "array"
    _accepts = (list,)
    _none_is_default = False

    def __init__(
        self,
        array_type: Any,
        default: Any = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        self.array_type = _declared(array_type, "Array")
        super().__init__(default, required, required_default)

    def _converted(self, name: str, val: Any) -> list[Any]:
        items = super()._converted(name, val)
        return [_part(self.array_type, f"{name}[]", item) for item in items]

    def schema_info(self, defined_names: Names) -> Any:
        return {"type": self.type(), "items": self.array_type.schema_info(defined_names)}


class Map(Field):
    """A field of dicts, from text to values of a field or to records."""

    _type = "map"
    _accepts = (dict,)
    _none_is_default = False

    def __init__(
        self,
        value_type: Any,
        default: Any = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        self.value_type = _declared(value_type, "Map")
        super().__init__(default, required, required_default)

    def _converted(self, name: str, val: Any) -> dict[str, Any]:
        pairs = super()._converted(name, val)
        for key in pairs:
            if not isinstance(key, str):
                raise _misfit(f"{name}'s key", key, "string")
        return {key: _part(self.value_type, f"{name}[{key!r}]", one) for key, one in pairs.items()}

    def schema_info(self, defined_names: Names) -> Any:
        return {"type": self.type(), "values": self.value_type.schema_info(defined_names)}


class Record:
    """The base class of an application's records; an instance is also a field of another record.

    The fields are those of the class itself, without those of base classes.  Arguments that are not
    fields are ignored, as in messages of newer programs.  A field that is a record, and is not
    given, is a copy of the declared one.  `_avro_namespace` is part of the definition;
    `_sorted_fields` puts its fields in alphabetical order.
    """

    _fields: ClassVar[dict[str, Any]] = {}
    _avro_namespace: ClassVar[str | None] = None
    _sorted_fields: ClassVar[bool] = False

    _default: Any
    _required: bool
    _required_default: bool

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._fields = {
            name: _declared(value, f"{cls.__name__}.{name}")
            for name, value in vars(cls).items()
            if isinstance(value, Field | Record) or _is_kind(value)
        }

    def __init__(
        self,
        default: Any = None,
        required_default: bool = False,
        required: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Create a record; `default`, `required_default` and `required` are those of Field."""
        about = {"_required_default": required_default, "_default": default, "_required": required}
        self.__dict__.update(about)
        for name, field in self._fields.items():
            if name in kwargs:
                value = field.validate_type(name, kwargs[name])
            else:
                value = copy.deepcopy(field if isinstance(field, Record) else field.default())
            self.__dict__[name] = value

    def __setattr__(self, key: str, value: Any) -> None:
        field = self._fields.get(key)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {key}: declare it")
        self.__dict__[key] = field.validate_type(key, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or self._fields.keys() != other._fields.keys():
            return NotImplemented
        return values_of(self) == values_of(other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return str(values_of(self))

    # -- as a field of another record

    def type(self) -> str:
        """Return the name of the record."""
        return type(self).__name__

    def python_type(self) -> Any:
        """Return the class of the record."""
        return type(self)

    def validate_type(self, name: str, val: Any) -> Any:
        """Return a record of this class, also from a dict; TypeError for any other value."""
        if isinstance(val, type(self)) or (val is None and not self._required):
            return val
        if isinstance(val, dict):
            return type(self)(**val)
        raise _misfit(name, val, self.type())

    def default(self) -> Any:
        """Return the default in the definition."""
        return self._default

    def required_default(self) -> bool:
        """Tell whether the definition includes the default."""
        return self._required_default

    @classmethod
    def schema(cls) -> Any:
        """Return the Avro definition of the record."""
        return cls.schema_info(set())

    @classmethod
    def schema_info(cls, defined_names: Names) -> Any:
        """Return the Avro definition; types in `defined_names` are only named, new ones added."""
        space = cls._avro_namespace
        name = f"{space}.{cls.__name__}" if space else cls.__name__
        if name in defined_names:
            return name
        defined_names.add(name)  # promise: a record that was defined is named afterwards
        head = {"type": "record", "name": cls.__name__} | ({"namespace": space} if space else {})
        order: Iterable[str] = sorted(cls._fields) if cls._sorted_fields else cls._fields
        fields = [_definition(one, cls._fields[one], defined_names) for one in order]
        return head | {"fields": fields}


def values_of(record: Record) -> dict[str, Any]:
    """Return the fields of a record by name."""
    return {name: vars(record)[name] for name in record._fields}


def json_value(value: Any) -> Any:
    """Return a value for JSON: the fields of a record, the value of an enum, bytes as text."""
    if isinstance(value, Record):
        return values_of(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes | bytearray):
        return value.decode()
    raise TypeError(f"{value!r} has no form in JSON")


def avro_value(value: Any) -> Any:
    """Return a value for fastavro: records as dicts, members of enums as their names."""
    if isinstance(value, Record):
        return avro_value(values_of(value))
    if isinstance(value, Mapping):
        return {key: avro_value(one) for key, one in value.items()}
    if isinstance(value, list):
        return [avro_value(one) for one in value]
    return value.name if isinstance(value, Enum) else value


def _definition(name: str, field: Any, defined_names: Names) -> dict[str, Any]:
    about: dict[str, Any] = {"name": name}
    if field.required_default():
        about["default"] = _default_value(field.default())
    kind = field.schema_info(defined_names)
    return about | {"type": kind if field._required else ["null", kind]}


def _default_value(value: Any) -> Any:
    """Return a value in the form of Avro defaults: each byte is a character."""
    plain = avro_value(value)
    return plain.decode("latin-1") if isinstance(plain, bytes | bytearray) else plain


def _is_kind(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Field | Record)


def _declared(value: Any, where: str) -> Any:
    """Return the declared field or record, an instance if a class was given; else TypeError."""
    if isinstance(value, type) and issubclass(value, Record):
        return value()
    if not isinstance(value, Field | Record):
        raise TypeError(f"{where} needs a field such as String(), or a record; not {value!r}")
    return value


def _part(kind: Any, name: str, value: Any) -> Any:
    """Convert a value of an array or a map; only Null accepts None."""
    if value is None and not isinstance(kind, Null):
        raise _misfit(name, value, kind.type())
    return kind.validate_type(name, value)


def _misfit(name: str, value: object, wanted: str) -> TypeError:
    return TypeError(f"field {name!r} must be {wanted}, but is {value!r}")
