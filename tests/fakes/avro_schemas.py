"""Avro schemas as JSON that evolve, and data with everything that a writer may write."""

import json
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
SAMPLES: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True],
    "int": [7],
    "long": [1 << 40],
    "float": [0.5],
    "double": [0.25],
    "bytes": [b"bytes"],
    "string": ["text"],
}
SYMBOLS = ("A", "B", "C")
MAX_SAMPLES = 60


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Draw a record with a few fields of any types, itself among them."""
    return _record(draw, count(), 2)


def _type(draw: st.DrawFn, names: Iterator[int], depth: int) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "primitive": lambda: draw(st.sampled_from(PRIMITIVES)),
        "enum": lambda: _enum(draw, f"E{next(names)}"),
        "fixed": lambda: _fixed(draw, f"F{next(names)}"),
        "array": lambda: {"type": "array", "items": _type(draw, names, depth - 1)},
        "map": lambda: {"type": "map", "values": _type(draw, names, depth - 1)},
        "union": lambda: _union(draw, names, depth),
        "record": lambda: _record(draw, names, depth - 1),
    }
    kinds = list(makers) if depth else ["primitive", "enum", "fixed"]
    return makers[draw(st.sampled_from(kinds))]()


def _fixed(draw: st.DrawFn, name: str) -> Any:
    return {"type": "fixed", "name": name, "size": draw(st.integers(1, 2))}


def _enum(draw: st.DrawFn, name: str) -> Any:
    symbols = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, unique=True))
    default = {"default": symbols[0]} if draw(st.booleans()) else {}
    return {"type": "enum", "name": name, "symbols": symbols, **default}


def _union(draw: st.DrawFn, names: Iterator[int], depth: int) -> Any:
    branches: dict[str, Any] = {}
    for _ in range(draw(st.integers(1, 3))):
        branch = _type(draw, names, depth - 1)
        if not isinstance(branch, list):
            branches.setdefault(kind_of(branch), branch)
    return list(branches.values()) or ["null"]


def _record(draw: st.DrawFn, names: Iterator[int], depth: int) -> Any:
    name = f"R{next(names)}"
    fields = [_field(draw, names, depth, number) for number in range(draw(st.integers(0, 3)))]
    if draw(st.booleans()):
        fields.append({"name": "next", "type": ["null", name]})
    return {"type": "record", "name": name, "fields": fields}


def _field(draw: st.DrawFn, names: Iterator[int], depth: int, number: int) -> Any:
    kind = _type(draw, names, depth)
    field = {"name": f"f{number}", "type": kind}
    if isinstance(kind, str) and draw(st.booleans()):
        sample = SAMPLES[kind][0]
        field["default"] = sample.decode() if isinstance(sample, bytes) else sample
    return field


def kind_of(schema: Any) -> str:
    """Return Avro's name of a type."""
    if isinstance(schema, list):
        return "union"
    return str(schema["type"] if isinstance(schema, dict) else schema)


# Evolution --------------------------------------------------------------------------------


def evolved(draw: st.DrawFn, schema: Any, names: Iterator[int]) -> Any:
    """Return the schema with some changes; names of types stay."""
    change = draw(st.integers(0, 11))
    if change == 0:
        other = _type(draw, names, 1)
        # fastavro reads no record inside of another one under another name
        return schema if _has_record(schema) and _has_record(other) else other
    if change == 1 and not isinstance(schema, list):
        others = draw(st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=2, unique=True))
        return [schema, *(other for other in others if other != kind_of(schema))]
    changers: dict[str, Callable[[], Any]] = {
        "union": lambda: _evolved_union(draw, schema, names),
        "record": lambda: {**schema, "fields": _evolved_fields(draw, schema["fields"], names)},
        "enum": lambda: _enum(draw, schema["name"]),
        "fixed": lambda: _fixed(draw, schema["name"]),
        "array": lambda: {"type": "array", "items": evolved(draw, schema["items"], names)},
        "map": lambda: {"type": "map", "values": evolved(draw, schema["values"], names)},
    }
    kind = kind_of(schema)
    if kind == "array" and change == 2:
        return {"type": "map", "values": schema["items"]}
    if kind in changers:
        return changers[kind]()
    return draw(st.sampled_from(PRIMITIVES)) if change < 8 else schema


def _has_record(schema: Any) -> bool:
    return '"record"' in json.dumps(schema)


def _evolved_union(draw: st.DrawFn, schema: list[Any], names: Iterator[int]) -> list[Any]:
    kept = [evolved(draw, one, names) for one in schema if draw(st.integers(0, 5))]
    flat = {kind_of(one): one for one in kept if not isinstance(one, list)}
    return list(flat.values()) or ["null"]


def _evolved_fields(draw: st.DrawFn, fields: list[Any], names: Iterator[int]) -> list[Any]:
    kept = []
    for field in fields:
        if field["name"] == "next":
            kept.append(field)
        elif draw(st.integers(0, 5)):
            if draw(st.integers(0, 5)):
                kept.append({"name": field["name"], "type": evolved(draw, field["type"], names)})
            else:  # fastavro reads no record of another name in a field of another name
                renamed = {"name": f"renamed_{field['name']}", "aliases": [field["name"]]}
                kept.append({**renamed, "type": field["type"]})
    if not draw(st.integers(0, 2)):
        kept.append({**_field(draw, names, 0, 0), "name": "added"})
    return draw(st.permutations(kept))


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a writer's schema, and that of a reader that is some changes away from it."""
    writer = draw(schemas())
    fields = _evolved_fields(draw, writer["fields"], count(1000))
    return writer, {**writer, "fields": fields}


# Data -------------------------------------------------------------------------------------


def samples(schema: Any) -> list[Any]:
    """Return data in which each branch of each union and each symbol occurs."""
    return list(islice(_samples(schema, {}, 0), MAX_SAMPLES))


def _samples(schema: Any, defined: dict[str, Any], level: int) -> Iterator[Any]:
    kind = kind_of(schema)
    if kind == "union":
        for branch in schema:
            if level < 2 or kind_of(branch) not in defined:
                name = kind_of(branch)
                if isinstance(branch, dict):
                    name = branch.get("name", name)
                yield from ((name, one) for one in _samples(branch, defined, level))
    elif kind in defined:
        yield from _samples(defined[kind], defined, level + 1)
    elif kind == "record":
        yield from _records(schema, {**defined, schema["name"]: schema}, level)
    elif kind == "enum":
        yield from schema["symbols"]
    elif kind == "fixed":
        yield b"x" * schema["size"]
    elif kind == "array":
        yield from ([one] for one in _samples(schema["items"], defined, level))
    elif kind == "map":
        yield from ({"key": one} for one in _samples(schema["values"], defined, level))
    else:
        yield from SAMPLES[kind]


def _records(schema: Any, defined: dict[str, Any], level: int) -> Iterator[Any]:
    choices = {
        field["name"]: list(islice(_samples(field["type"], defined, level), MAX_SAMPLES))
        for field in schema["fields"]
    }
    if not all(choices.values()):
        return  # one of its fields is an empty union: there is no such record
    first = {name: options[0] for name, options in choices.items()}
    yield first
    for name, options in choices.items():
        for option in options[1:]:
            yield {**first, name: option}
