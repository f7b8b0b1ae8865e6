"""Avro schemas: parsed from their JSON text, checked, and written in one canonical form.

Types refer to each other by name, so a parsed schema may be a graph with cycles; code that walks
through it remembers where it was.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from magnetar_broker.schemas.types import InvalidSchema

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
MAX_DEPTH: Final = 64
"""The most levels of types nested within types."""
MAX_NAME: Final = 1024
"""The most characters of a name with its namespace: nested types inherit namespaces."""
MAX_FITTING: Final = 100_000
"""The most values and types that are checked to find out whether a default is valid: the event loop
waits meanwhile."""
NAME: Final = re.compile(r"[^\W\d][\w$]*")
ORDERS: Final = ("ascending", "descending", "ignore")
NO_DEFAULT: Final = object()

_KEYS_OF_FIELDS: Final = frozenset(("name", "type", "default", "order", "aliases", "doc"))
_KEYS_OF_TYPES: Final = frozenset(
    ("type", "name", "namespace", "aliases", "doc", "fields", "symbols", "default", "size", "items")
) | {"values"}

Properties = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class AvroType:
    """A type; `kind` is its name in Avro."""

    kind: str
    properties: Properties
    """The other attributes of the type, such as a logical type."""


@dataclass(slots=True, eq=False)
class Named(AvroType):
    """A record, an enum or a fixed."""

    name: str
    """The name of the type, including its namespace."""
    aliases: frozenset[str]
    """The other names of types whose data the type can read, without namespaces."""

    def answers_to(self, name: str) -> bool:
        """Return whether the type can read a writer's type of this name, without namespace."""
        return name == unqualified(self.name) or name in self.aliases


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record."""

    name: str
    type: AvroType
    default: Any
    """The default as written, or NO_DEFAULT; `Fitting` checks whether it is valid."""
    order: str
    aliases: tuple[str, ...]
    properties: Properties


@dataclass(slots=True, eq=False)
class Record(Named):
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Enumeration(Named):
    symbols: tuple[str, ...]
    default: str | None


@dataclass(slots=True, eq=False)
class Fixed(Named):
    size: int


@dataclass(slots=True, eq=False)
class Collection(AvroType):
    """An array of items, or a map of values."""

    item: AvroType


@dataclass(slots=True, eq=False)
class Union(AvroType):
    branches: tuple[AvroType, ...]


def unqualified(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition(".")[2]


def parse(text: bytes) -> AvroType:
    """Return the schema that a text describes; InvalidSchema if it describes none."""
    parser = _Parser()
    try:
        described = json.loads(text.decode(), parse_constant=_no_number)
        return parser.type(described, "", "the schema", 0)
    except ValueError as error:
        raise InvalidSchema(f"expected a schema in JSON: {error}") from error
    except RecursionError as error:
        raise InvalidSchema("its JSON is nested too deeply") from error


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


class _Parser:
    """The parser of one text; a name is known after its definition."""

    def __init__(self) -> None:
        self._named: dict[str, Named] = {}

    def type(self, node: Any, namespace: str, where: str, depth: int) -> AvroType:
        """Return a type; names in it without a namespace are of this one."""
        if depth > MAX_DEPTH:
            raise InvalidSchema(f"{where}: more than {MAX_DEPTH} nested types")
        if isinstance(node, str):
            return self._by_name(node, namespace, where)
        if isinstance(node, list):
            return self._union(node, namespace, where, depth)
        if not isinstance(node, dict):
            raise InvalidSchema(f"{where} must be a name, an object or a list, not {shown(node)}")
        kind = node.get("type")
        if isinstance(kind, dict | list):  # a type in brackets
            return self.type(kind, namespace, where, depth + 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(node, str(kind), namespace, where, depth)
        properties = _properties(node, _KEYS_OF_TYPES)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            if part not in node:
                raise InvalidSchema(f"{where}: this {kind} has no type for its {part}; add one")
            item = self.type(node[part], namespace, f"{where}, its {part}", depth + 1)
            return Collection(str(kind), properties, item)
        if not isinstance(kind, str):
            raise InvalidSchema(f"{where} has no type; add one")
        named = self._by_name(kind, namespace, where)
        return AvroType(kind, properties) if kind in PRIMITIVES else named

    def _by_name(self, name: str, namespace: str, where: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name, {})
        known = self._named.get(_qualified(name, namespace)) or self._named.get(name)
        if known is None:
            raise InvalidSchema(f"{where}: type {name!r} is not defined before its use")
        return known

    def _union(self, node: list[Any], namespace: str, where: str, depth: int) -> Union:
        branches = []
        seen = set()
        for number, branch in enumerate(node):
            parsed = self.type(branch, namespace, f"{where}, branch {number}", depth + 1)
            if isinstance(parsed, Union):
                raise InvalidSchema(f"{where}: a union is nested directly in another union")
            name = parsed.name if isinstance(parsed, Named) else parsed.kind
            if name in seen:
                raise InvalidSchema(f"{where}: the union has {name} twice")
            seen.add(name)
            branches.append(parsed)
        return Union("union", {}, tuple(branches))

    def _definition(
        self, node: dict[str, Any], kind: str, namespace: str, where: str, depth: int
    ) -> Named:
        name, inner = self._name_of(node, kind, namespace, where)
        aliases = frozenset(map(unqualified, _names(node, "aliases", where)))
        properties = _properties(node, _KEYS_OF_TYPES)
        defined: Named
        if kind == "enum":
            symbols, default = _symbols(node, name)
            defined = Enumeration(kind, properties, name, aliases, symbols, default)
        elif kind == "fixed":
            size = node.get("size")
            if type(size) is not int or not 0 <= size < 1 << 31:
                raise InvalidSchema(f"fixed {name}: its size must be a number of bytes")
            defined = Fixed(kind, properties, name, aliases, size)
        else:
            defined = Record("record", properties, name, aliases)
        self._named[name] = defined
        if isinstance(defined, Record):
            defined.fields = self._fields(node, name, inner, depth)
        return defined

    def _name_of(
        self, node: dict[str, Any], kind: str, namespace: str, where: str
    ) -> tuple[str, str]:
        """Return the full name of a definition, and the namespace that nested names inherit."""
        name, own = node.get("name"), node.get("namespace")
        if not isinstance(name, str) or not name:
            raise InvalidSchema(f"{where}: this {kind} has no name")
        full = _qualified(name, own if isinstance(own, str) else namespace)
        if len(full) > MAX_NAME:
            raise InvalidSchema(f"{where}: its name has more than {MAX_NAME} characters")
        if not all(map(NAME.fullmatch, full.split("."))):
            raise InvalidSchema(f"{where}: invalid name {full!r}: expected letters, digits and _")
        if full in PRIMITIVES:
            raise InvalidSchema(f"{where}: a {kind} cannot be named {full}")
        if full in self._named:
            raise InvalidSchema(f"{where}: {full} is defined twice")
        return full, full.rpartition(".")[0]

    def _fields(self, node: dict[str, Any], record: str, namespace: str, depth: int) -> list[Field]:
        listed = node.get("fields")
        if not isinstance(listed, list):
            raise InvalidSchema(f'record {record}: expected a list as "fields"')
        fields: dict[str, Field] = {}
        for one in listed:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise InvalidSchema(f"record {record}: a field has no name")
            name = one["name"]
            where = f"field {name!r} of {record}"
            if not NAME.fullmatch(name):
                raise InvalidSchema(f"{where}: invalid name: expected letters, digits and _")
            if name in fields:
                raise InvalidSchema(f"{where} is defined twice; remove one")
            if "type" not in one:
                raise InvalidSchema(f"{where} has no type; add one")
            fields[name] = self._field(one, name, namespace, where, depth)
        return list(fields.values())

    def _field(
        self, node: dict[str, Any], name: str, namespace: str, where: str, depth: int
    ) -> Field:
        order = node.get("order", "ascending")
        if order not in ORDERS:
            raise InvalidSchema(f"{where}: its order must be one of {', '.join(ORDERS)}")
        return Field(
            name,
            self.type(node["type"], namespace, where, depth + 1),
            node.get("default", NO_DEFAULT),
            order,
            tuple(_names(node, "aliases", where)),
            _properties(node, _KEYS_OF_FIELDS),
        )


def _qualified(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _properties(node: dict[str, Any], known: frozenset[str]) -> Properties:
    return {name: value for name, value in node.items() if name not in known}


def _names(node: dict[str, Any], key: str, where: str) -> list[str]:
    names = node.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidSchema(f"{where}: its {key} must be a list of names")
    return names


def _symbols(node: dict[str, Any], enum: str) -> tuple[tuple[str, ...], str | None]:
    symbols = _names(node, "symbols", f"enum {enum}")
    if "symbols" not in node or not all(map(NAME.fullmatch, symbols)):
        raise InvalidSchema(f"enum {enum}: its symbols must be a list of names")
    if len(set(symbols)) < len(symbols):
        raise InvalidSchema(f"enum {enum} has a duplicate symbol")
    default = node.get("default")
    if default is not None and default not in symbols:
        raise InvalidSchema(f"enum {enum}: its default {shown(default)} is not among its symbols")
    return tuple(symbols), default


def shown(value: Any) -> str:
    """Return a value as text for a message, shortened if it is long."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "what is written"
    return text if len(text) <= 40 else f"{text[:37]}..."


# Defaults ---------------------------------------------------------------------------------


class _TooMuch(Exception):
    """The check would take too long."""


class Fitting:
    """Checks whether JSON values are valid defaults of types; each pair is checked once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._left = MAX_FITTING

    def has_default(self, field: Field) -> bool:
        """Whether a field has a valid default; writers of schemas do not always check that."""
        try:
            return field.default is not NO_DEFAULT and self.fits(field.default, field.type)
        except (RecursionError, _TooMuch):
            return False

    def fits(self, value: Any, wanted: AvroType) -> bool:
        """Return whether a value can be the default of a field of this type."""
        self._left -= len(wanted.symbols) if isinstance(wanted, Enumeration) else 1
        if self._left < 0:
            raise _TooMuch
        if not isinstance(wanted, Union | Record | Collection):
            return _fits_leaf(value, wanted)
        pair = id(value), id(wanted)
        if pair not in self._known:
            self._known[pair] = self._fits_compound(value, wanted)
        return self._known[pair]

    def _fits_compound(self, value: Any, wanted: Union | Record | Collection) -> bool:
        if isinstance(wanted, Union):
            return any(self.fits(value, branch) for branch in wanted.branches)
        if isinstance(wanted, Record):
            return isinstance(value, dict) and all(
                self.fits(value[one.name], one.type)
                if one.name in value
                else one.default is not NO_DEFAULT
                for one in wanted.fields
            )
        if wanted.kind == "array":
            return isinstance(value, list) and all(self.fits(one, wanted.item) for one in value)
        return isinstance(value, dict) and all(
            self.fits(one, wanted.item) for one in value.values()
        )


def _fits_leaf(value: Any, wanted: AvroType) -> bool:
    if isinstance(wanted, Enumeration):
        return value in wanted.symbols
    if isinstance(wanted, Fixed):
        return _is_latin(value) and len(value) == wanted.size
    return _FITS[wanted.kind](value)


def _is_latin(value: Any) -> bool:
    """Return whether a value stands for bytes: a text of characters up to 255."""
    return isinstance(value, str) and all(char <= "\xff" for char in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any, bits: int) -> bool:
    return type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: _is_whole(value, 32),
    "long": lambda value: _is_whole(value, 64),
    "float": _is_number,
    "double": _is_number,
    "bytes": _is_latin,
    "string": lambda value: isinstance(value, str),
}
