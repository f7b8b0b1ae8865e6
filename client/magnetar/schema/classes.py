"""Classes as records: dataclasses and pydantic models, their fields and types.

pydantic is never imported here: if a class is a model of pydantic, it is imported already.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class AvroType:
    """Names the Avro type of a field, as in `Annotated[int, AvroType("int")]`.

    `definition` is the name of an Avro type, or a definition as in Avro's JSON.  The value must be
    of a type that fastavro accepts for it.
    """

    definition: str | Mapping[str, Any]

    def __hash__(self) -> int:
        return hash(repr(self.definition))


IntField = Annotated[int, AvroType("int")]
"""A 32-bit integer; `int` is 64-bit."""
FloatField = Annotated[float, AvroType("float")]
"""A 32-bit floating-point number; `float` is 64-bit."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a dataclass."""

    name: str
    type: Any
    default: Callable[[], Any] | None
    """Returns a default value; None if the field has no default."""


def is_record(kind: object) -> bool:
    """Tell whether this is a class with fields: a dataclass or a pydantic model."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or is_model(kind))


def is_model(kind: type) -> bool:
    """Tell whether this is a pydantic model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


@lru_cache(maxsize=1024)
def fields_of(kind: type) -> tuple[Field, ...]:
    """Return the fields of a class, in order; ValueError if it is not a class with fields."""
    if not is_record(kind):
        raise ValueError(f"{kind!r} has no fields: use a dataclass or a pydantic model")
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise ValueError(
            f"the types of {kind.__qualname__} cannot be found: {error}; define its classes at "
            "the top of a module"
        ) from error
    fields = _model_fields if is_model(kind) else _dataclass_fields
    return tuple(Field(name, hints[name], default) for name, default in fields(kind))


def _dataclass_fields(kind: Any) -> Iterator[tuple[str, Callable[[], Any] | None]]:
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        if field.default_factory is not dataclasses.MISSING:
            yield field.name, field.default_factory
        elif field.default is not dataclasses.MISSING:
            yield field.name, _constant(field.default)
        else:
            yield field.name, None


def _model_fields(kind: Any) -> Iterator[tuple[str, Callable[[], Any] | None]]:
    for name, field in kind.model_fields.items():
        has_default = not field.is_required()
        yield name, _model_default(field) if has_default else None


def _model_default(field: Any) -> Callable[[], Any]:
    return lambda: field.get_default(call_default_factory=True)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def made(kind: type, values: dict[str, Any]) -> Any:
    """Create an object of the class; pydantic checks the values."""
    if is_model(kind):
        return kind.model_validate(values, by_name=True, by_alias=False)  # type: ignore[attr-defined]
    return kind(**values)


def unwrapped(kind: Any) -> tuple[Any, AvroType | None]:
    """Return the type without Annotated, and its AvroType if present."""
    if get_origin(kind) is not Annotated:
        return kind, None
    inner, *notes = get_args(kind)
    chosen = [note for note in notes if isinstance(note, AvroType)]
    return inner, chosen[0] if chosen else None
