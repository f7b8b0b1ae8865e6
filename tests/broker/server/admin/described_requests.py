"""Requests from the OpenAPI description, and others that it does not allow."""

import json
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

NAMES = {
    "tenant": ["fuzz"] * 8 + ["public", "absent"],
    "namespace": ["one", "one", "one", "two", "default", "absent"],
    "topic": ["a", "b", "b-partition-0", "b-partition-9", "a%2Fb", "__change_events"],
    "subscription": ["s", "t"],
    "bundle": ["0x00000000_0xffffffff", "0x00000000_0x80000000", "LARGEST", "0x1_0x2"],
    "cluster": ["standalone", "standalone", "other"],
    "property": ["colour"],
    "role": ["me"],
}
"""Names of objects that may exist, so that requests find them."""
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(-(2**70), 2**70) | st.sampled_from([-1, 0, 1, 2, 2**31 - 1, 2**63 - 1])
SCALARS = st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | TEXTS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
BROKEN = st.binary(max_size=40) | st.sampled_from([b"{", b"[" * 2000, b'{"a": NaN}', b"\xff"])


class Described(NamedTuple):
    """One operation of the description."""

    method: str
    path: str
    operation: dict[str, Any]

    def allows(self, status: int) -> bool:
        """Tell whether the description includes this status of an answer."""
        return not {str(status), f"{status // 100}XX"}.isdisjoint(self.operation["responses"])


class Request(NamedTuple):
    """A request to send."""

    method: str
    target: str
    body: bytes | None


def operations_of(description: dict[str, Any]) -> list[Described]:
    """Return all operations of a description."""
    return [
        Described(method.upper(), path, operation)
        for path, item in description["paths"].items()
        for method, operation in item.items()
    ]


@st.composite
def requests(draw: st.DrawFn, described: Described) -> Request:
    """Draw a request for an operation: mostly one that the description allows."""
    path, query = described.path, []
    for parameter in described.operation["parameters"]:
        name, schema = parameter["name"], parameter["schema"]
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", draw(_in_path(name, schema)))
        elif draw(st.booleans()):
            value = draw(_mostly(values(schema), TEXTS))
            query.append((name, json.dumps(value) if not isinstance(value, str) else value))
    target = f"{path}?{urlencode(query, errors='replace')}" if query else path
    return Request(described.method, target, draw(_bodies(described.operation)))


@st.composite
def _in_path(draw: st.DrawFn, name: str, schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return str(draw(st.sampled_from(schema["enum"])))
    if name in NAMES and draw(st.integers(0, 9)) > 0:
        return draw(st.sampled_from(NAMES[name]))
    found = draw(_mostly(values(schema), TEXTS))
    return quote(str(found), safe="") or "x"


@st.composite
def _bodies(draw: st.DrawFn, operation: dict[str, Any]) -> bytes | None:
    described = operation.get("requestBody")
    if described is None:
        return draw(st.none() | BROKEN)
    schema = described["content"]["application/json"]["schema"]
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.none() | BROKEN)
    value = draw(values(schema) if kind < 8 else ANYTHING)
    return json.dumps(value).encode()


def values(schema: Any) -> st.SearchStrategy[Any]:
    """Return values for a JSON Schema, as far as the description uses the language."""
    if "anyOf" in schema:
        return st.one_of([values(one) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema.get("type", "string")
    if isinstance(kinds, list):
        return st.one_of([values({**schema, "type": kind}) for kind in kinds])
    return _of_kind(kinds, schema)


def _of_kind(kind: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if kind == "integer":
        low, high = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
        return st.integers(low, high) | st.integers(max(low, 0), min(high, 20))
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=4)
    if kind == "object":
        return _objects(schema)
    simple = {"boolean": st.booleans(), "null": st.none(), "number": st.floats(-9, 9)}
    return {**simple, "string": TEXTS}[kind]


@st.composite
def _objects(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", [])
    found = {
        name: draw(_mostly(values(part), ANYTHING))
        for name, part in schema.get("properties", {}).items()
        if name in required or draw(st.booleans())
    }
    others = schema.get("additionalProperties")
    if others:
        found |= draw(st.dictionaries(TEXTS, values(others), max_size=3))
    return found


@st.composite
def _mostly(draw: st.DrawFn, usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> Any:
    return draw(usual if draw(st.integers(0, 9)) > 0 else rare)
