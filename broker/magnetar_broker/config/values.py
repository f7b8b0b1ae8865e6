"""The kinds of values that settings have: parsing, bounds, and the text of allowed values."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Literal, Protocol

from magnetar_storage.space.free_limit import FreeLimit


class ValueKind(Protocol):
    """Turns text into a value; `allowed` describes in words which texts it accepts."""

    @property
    def allowed(self) -> str: ...

    def parse(self, text: str) -> object:
        """Return the value, or ValueError; the text is neither blank nor surrounded by blanks."""


HIDDEN = "*****"
"""The text that is shown instead of a secret."""


class Blank(Enum):
    """The meaning of `key=` with a blank value."""

    DEFAULT = "the default"
    NONE = "off"
    REFUSED = "not allowed"


@dataclass(frozen=True)
class Key:
    """The description of a field of the settings: its key in files, and its purpose."""

    name: str
    kind: ValueKind
    meaning: str
    unit: str = ""
    pulsar: str | None = None
    """Pulsar's default where ours differs."""
    blank: Blank = Blank.DEFAULT
    dynamic: bool = False
    """Whether the setting can be changed while the broker runs."""
    of_workers: bool = False
    """Whether a reload changes the setting though it is not dynamic: only workers read it."""
    secret: bool = False
    """Whether the value must not appear in a log, an error or an answer."""

    @property
    def reloads(self) -> bool:
        """Whether a reload changes the setting in a broker of several workers."""
        return self.dynamic or self.of_workers

    def shown(self, text: str) -> str:
        """Return the text of a value as it may be shown; secrets are hidden."""
        # promise[without HIDDEN if self.secret and text else]: secrets are not shown
        return HIDDEN if self.secret and text else text


@dataclass(frozen=True)
class Integer:
    low: int
    high: int = 2**31 - 1

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def parse(self, text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise ValueError(text)
        number = int(text)
        if not self.low <= number <= self.high:
            raise ValueError(text)
        return number


@dataclass(frozen=True)
class IntegerOrAuto:
    """The kind of a whole number, or the word `auto`."""

    integer: Integer

    @property
    def allowed(self) -> str:
        return f"{self.integer.allowed}, or auto"

    def parse(self, text: str) -> int | Literal["auto"]:
        return "auto" if text.lower() == "auto" else self.integer.parse(text)


@dataclass(frozen=True)
class Number:
    """The kind of a number that can have a fraction."""

    low: int
    high: int

    @property
    def allowed(self) -> str:
        return f"a number from {self.low} to {self.high}"

    def parse(self, text: str) -> float:
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", text):
            raise ValueError(text)
        number = float(text)
        if not self.low <= number <= self.high:
            raise ValueError(text)
        return number


class Share:
    allowed = "a number from 0 to 1"

    def parse(self, text: str) -> float:
        if not re.fullmatch(r"[0-9]*\.?[0-9]+|[0-9]+\.", text):
            raise ValueError(text)
        number = float(text)
        if number > 1:
            raise ValueError(text)
        return number


class FreeSpace:
    """The kind of a limit of the free space of a disk."""

    allowed = (
        "auto, a number of bytes (also with K, M, G or T), or a percentage of the disk such as 5%"
    )

    def parse(self, text: str) -> FreeLimit:
        if text.lower() == "auto":
            return FreeLimit()
        found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)|([0-9]{1,2}(?:\.[0-9]+)?)%", text, re.I)
        if found is None:
            raise ValueError(text)
        if found[3] is not None:
            return FreeLimit(percent=float(found[3]))
        return FreeLimit(bytes=int(found[1]) << 10 * " KMGT".index(found[2].upper() or " "))


class Boolean:
    allowed = "true or false"

    def parse(self, text: str) -> bool:
        word = text.lower()
        if word not in ("true", "false"):
            raise ValueError(text)
        return word == "true"


@dataclass(frozen=True)
class Choice:
    options: type[StrEnum]

    @property
    def allowed(self) -> str:
        return " or ".join(self.options)

    def parse(self, text: str) -> StrEnum:
        return self.options(text)


@dataclass(frozen=True)
class Choices:
    """The kind of several options, separated by commas."""

    options: type[StrEnum]

    @property
    def allowed(self) -> str:
        return f"one or more of {', '.join(self.options)}, separated by commas"

    def parse(self, text: str) -> frozenset[StrEnum]:
        words = _words(text)
        if not words:
            raise ValueError(text)
        return frozenset(map(self.options, words))


@dataclass(frozen=True)
class Text:
    """The kind of a text that matches the pattern as a whole."""

    pattern: str
    allowed: str

    def parse(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(text)
        return text


@dataclass(frozen=True)
class Texts:
    """The kind of several texts, separated by commas."""

    item: Text

    @property
    def allowed(self) -> str:
        return f"{self.item.allowed}; several are separated by commas"

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(self.item.parse(word) for word in _words(text))


def render(value: object) -> str:
    """Return the text that parses to this value; sets come out in their options' order."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case FreeLimit():
            return str(value)
        case tuple():
            return ",".join(map(str, value))
        case frozenset():
            return ",".join(option for option in _options_of(value) if option in value)
        case _:
            return str(value)


def _options_of(values: frozenset[StrEnum]) -> Iterable[StrEnum]:
    return type(next(iter(values))) if values else ()


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
