"""The same records with the schemas of either module, and random ones."""

from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

from hypothesis import strategies as st


class Colour(Enum):
    RED = 1
    GREEN = 2


def declared(schema: ModuleType) -> SimpleNamespace:
    """Order, Part, and what else a program may declare."""
    base: Any = schema.Record

    class Part(base):
        name = schema.String(required=True)
        price = schema.Double(default=0.5, required=True, required_default=True)

    class Order(base):
        truth = schema.Boolean(required=True)
        small = schema.Integer(required=True)
        whole = schema.Long()
        real = schema.Float()
        wide = schema.Double()
        text = schema.String()
        binary = schema.Bytes()
        colour = schema.CustomEnum(Colour)
        again = schema.CustomEnum(Colour, default=Colour.RED, required=True)
        part = Part()
        other = Part
        parts = schema.Array(Part())
        named = schema.Map(Part())
        counts = schema.Map(schema.Long())
        grid = schema.Array(schema.Array(schema.Integer()))
        note = schema.String(required_default=True)
        times = schema.Integer(default=3, required=True, required_default=True)
        tags = schema.Array(schema.String(), default=["a"], required=True, required_default=True)

        def total(self) -> Any:
            return self.times * self.small

    class Odd(base):
        """What brokers refuse, as Avro wants the type of a default first."""

        part = Part()
        nothing = schema.Null()
        limits = schema.Map(schema.Integer(), default={"a": 1}, required_default=True)
        likes = schema.CustomEnum(Colour, default=Colour.GREEN, required_default=True)
        tells = schema.Boolean(required_default=True)

    class Sorted(base):
        _sorted_fields = True
        b = schema.Integer()
        a = Part()

    class Spaced(base):
        _avro_namespace = "shop.orders"
        a = schema.Integer()

    class UsesSpaced(base):
        x = Spaced()
        y = schema.Array(Spaced())

    class Derived(Part):
        more = schema.Integer()

    return SimpleNamespace(
        Part=Part,
        Order=Order,
        Odd=Odd,
        Sorted=Sorted,
        Spaced=Spaced,
        UsesSpaced=UsesSpaced,
        Derived=Derived,
    )


def order(of: SimpleNamespace, **changed: Any) -> Any:
    """An order with everything."""
    values: dict[str, Any] = {
        "truth": True,
        "small": -5,
        "whole": 2**40,
        "real": 0.5,
        "wide": 0.1,
        "text": "tëxt",
        "binary": b"bytes",
        "colour": Colour.GREEN,
        "again": "GREEN",
        "part": of.Part(name="a", price=2.0),
        "other": {"name": "d"},
        "parts": [{"name": "b"}, {"name": "c"}],
        "named": {"x": of.Part(name="e")},
        "counts": {"a": 1},
        "grid": [[1, 2], []],
    }
    return of.Order(**values | changed)


def plain(value: Any) -> Any:
    """A record as a dict, so that those of two modules can be compared."""
    if hasattr(value, "_fields") and not isinstance(value, Enum):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "Boolean": st.booleans(),
    "Integer": st.integers(-(2**31), 2**31 - 1),
    "Long": st.integers(-(2**63), 2**63 - 1),
    "Float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "Double": st.floats(allow_nan=False, allow_infinity=False),
    "String": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "Bytes": st.text("ab", max_size=3).map(str.encode),
}
Kind = tuple[Any, ...]
"""("Integer",), ("Array", kind), ("Map", kind), or ("Record", name, {field: (kind, options)})."""


def _record(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    options = st.fixed_dictionaries({}, optional={"required": st.booleans()})
    fields = st.dictionaries(
        st.sampled_from(["a", "b", "c"]), st.tuples(kinds, options), min_size=1
    )
    return st.tuples(st.just("Record"), st.uuids().map(lambda one: f"R{one.hex}"), fields)


def _with(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    parts = st.tuples(st.sampled_from(["Array", "Map"]), kinds)
    return parts | _record(kinds)


kinds = st.recursive(st.sampled_from([(name,) for name in SCALARS]), _with, max_leaves=6)
records = _record(kinds)


def built(schema: ModuleType, kind: Kind, known: dict[str, Any], **options: Any) -> Any:
    """The field of a kind; records are classes, each made once."""
    name, *about = kind
    if name in SCALARS:
        return getattr(schema, name)(**options)
    if name != "Record":
        return getattr(schema, name)(built(schema, about[0], known), **options)
    if about[0] not in known:
        fields = {key: built(schema, one, known, **more) for key, (one, more) in about[1].items()}
        known[about[0]] = type(about[0], (schema.Record,), fields)
    return known[about[0]](**options)


def values(kind: Kind) -> st.SearchStrategy[Any]:
    """Values of a kind; records are dicts."""
    name, *about = kind
    if name in SCALARS:
        return SCALARS[name]
    if name == "Array":
        return st.lists(values(about[0]), max_size=2)
    if name == "Map":
        return st.dictionaries(SCALARS["String"], values(about[0]), max_size=2)
    drawn = st.fixed_dictionaries({key: values(one) for key, (one, _) in about[1].items()})
    # In the order of the fields, which the official client leaves as it is in arrays of arrays.
    return drawn.map(lambda found: {key: found[key] for key in about[1]})
