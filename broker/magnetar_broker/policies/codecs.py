"""Codecs of values as JSON; errors name the value, and what is expected instead."""

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
INT = 2**31 - 1
LONG = 2**63 - 1


class OutOfRange(ValueError):
    """A value of the right type that is too small, too large, or contradicts another one."""


class Codec(Protocol[T]):
    """Reads and writes one type of value; `decode(encode(value)) == value`."""

    def encode(self, value: T) -> Any:
        """Return the value as JSON."""

    def decode(self, value: Any) -> T:
        """Return the value from JSON; ValueError for a bad type, `OutOfRange` for a bad value."""


class Flag:
    """The codec of true and false, which some clients write as text."""

    def encode(self, value: bool) -> Any:
        return value

    def decode(self, value: Any) -> bool:
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is True or value is False:
            return value
        raise ValueError(f"expected true or false, got {_shown(value)}")


class WholeNumber(NamedTuple):
    """The codec of whole numbers, which some clients write as text."""

    low: int = 0
    high: int = INT

    def encode(self, value: int) -> Any:
        return value

    def decode(self, value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", value):
            value = int(value)
        if type(value) is not int:
            raise ValueError(f"expected a whole number, got {_shown(value)}")
        if not self.low <= value <= self.high:
            raise OutOfRange(
                f"expected a whole number from {self.low} to {self.high}, got {_shown(value)}"
            )
        return value


ANY_INT = WholeNumber(-INT - 1)
ANY_LONG = WholeNumber(-LONG - 1, LONG)


class Text:
    """The codec of texts."""

    def encode(self, value: str) -> Any:
        return value

    def decode(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"expected a text, got {_shown(value)}")
        return value


class OneOf(NamedTuple, Generic[E]):
    """The codec of a name out of a list."""

    options: type[E]

    def encode(self, value: E) -> Any:
        return str(value)

    def decode(self, value: Any) -> E:
        if not isinstance(value, str) or value not in list(self.options):
            raise ValueError(f"expected {' or '.join(self.options)}, got {_shown(value)}")
        return self.options(value)


class SomeOf(NamedTuple, Generic[E]):
    """The codec of several names out of a list, written in the list's order."""

    options: type[E]

    def encode(self, value: frozenset[E]) -> Any:
        return [str(option) for option in self.options if option in value]

    def decode(self, value: Any) -> frozenset[E]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list of {', '.join(self.options)}, got {_shown(value)}")
        return frozenset(map(OneOf(self.options).decode, value))


class ByName(NamedTuple, Generic[T]):
    """The codec of an object with a value of one type under each name."""

    codec: Codec[T]

    def encode(self, value: dict[str, T]) -> Any:
        return {name: self.codec.encode(one) for name, one in value.items()}

    def decode(self, value: Any) -> dict[str, T]:
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, got {_shown(value)}")
        return {name: _named(name, self.codec, one) for name, one in value.items()}


class Real:
    """The codec of numbers that can have a fraction."""

    def encode(self, value: float) -> Any:
        return value

    def decode(self, value: Any) -> float:
        if type(value) not in (int, float) or not abs(value) <= LONG:
            raise ValueError(f"expected a number, got {_shown(value)}")
        return float(value)


class Anything:
    """The codec of any JSON."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value


class ListOf(NamedTuple, Generic[T]):
    """The codec of any number of values of one type; repeated ones count once."""

    codec: Codec[T]

    def encode(self, value: tuple[T, ...]) -> Any:
        return [self.codec.encode(one) for one in value]

    def decode(self, value: Any) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {_shown(value)}")
        return tuple(dict.fromkeys(self.codec.decode(one) for one in value))


class DocumentField(NamedTuple):
    """A member of a document; without a default it can be absent."""

    name: str
    codec: Codec[Any]
    default: Any = None


class Document:
    """The codec of an object that is stored as it was sent, except for nulls.

    `others` is the type of other members, which are ignored if it is None.  `check` raises
    ValueError for members that do not go together.
    """

    LARGEST = 64 << 10
    """The most characters of the JSON."""

    def __init__(
        self,
        *parts: DocumentField,
        others: Codec[Any] | None = None,
        check: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.parts = parts
        self._others = others
        self._check = check

    def encode(self, value: dict[str, Any]) -> Any:
        return dict(value)

    def decode(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            names = ", ".join(part.name for part in self.parts)
            raise ValueError(f"expected an object with {names}, got {_shown(value)}")
        made = {part.name: part.default for part in self.parts if part.default is not None}
        codecs = {part.name: part.codec for part in self.parts}
        for name, member in value.items():
            codec = codecs.get(name, self._others)
            if member is not None and codec is not None:
                made[name] = _named(name, codec, member)
        if len(json.dumps(made)) > self.LARGEST:
            raise OutOfRange(f"expected at most {self.LARGEST} characters of JSON")
        if self._check is not None:
            self._check(made)
        return made


class Field(NamedTuple):
    """A member of an object; an absent or null member has its default."""

    name: str
    attribute: str
    codec: Codec[Any]
    default: Any
    alias: str = ""
    """Another name of the member, which some clients write."""
    required: bool = False


class Record(Generic[T]):
    """An object whose members are the attributes of a value; unknown members are ignored.

    `check` raises ValueError for members that do not go together.
    """

    def __init__(
        self, make: Callable[..., T], *fields: Field, check: Callable[[T], None] | None = None
    ) -> None:
        self.fields = fields
        self._make = make
        self._check = check

    def encode(self, value: T) -> Any:
        return {
            field.name: field.codec.encode(getattr(value, field.attribute)) for field in self.fields
        }

    def decode(self, value: Any) -> T:
        if not isinstance(value, dict):
            names = ", ".join(field.name for field in self.fields)
            raise ValueError(f"expected an object with {names}, got {_shown(value)}")
        made = self._make(**{field.attribute: _member(field, value) for field in self.fields})
        if self._check is not None:
            self._check(made)
        return made


class Refined:
    """The base of codecs of objects with the members of a record and additional rules."""

    def __init__(self, record: Record[dict[str, Any]]) -> None:
        self.record = record


def _member(field: Field, members: dict[str, Any]) -> Any:
    for name in filter(None, (field.name, field.alias)):
        if members.get(name) is not None:
            return _named(name, field.codec, members[name])
    if field.required:
        raise ValueError(f"{field.name} is missing")
    return field.default


def _named(name: str, codec: Codec[T], value: Any) -> T:
    """Decode a value; errors begin with the name of the member."""
    try:
        return codec.decode(value)
    except ValueError as error:
        raise type(error)(f"{name}: {error}") from error


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
