"""Values of policies as JSON Schema, for the description of the routes."""

from typing import Any

from magnetar_broker.policies.codecs import (
    Anything,
    ByName,
    Codec,
    Document,
    Field,
    Flag,
    ListOf,
    OneOf,
    Real,
    Record,
    Refined,
    SomeOf,
    Text,
    WholeNumber,
)


def schema_of(codec: Codec[Any]) -> dict[str, Any]:
    """Return the JSON Schema of what a codec writes; it reads other forms of the values, too."""
    match codec:
        case Flag():
            found: dict[str, Any] = {"type": "boolean"}
        case WholeNumber(low, high):
            found = {"type": "integer", "minimum": low, "maximum": high}
        case Text():
            found = {"type": "string"}
        case OneOf(options):
            found = {"type": "string", "enum": [str(option) for option in options]}
        case SomeOf(options):
            found = {"type": "array", "items": schema_of(OneOf(options))}
        case ByName(inner):
            found = {"type": "object", "additionalProperties": schema_of(inner)}
        case Real():
            found = {"type": "number"}
        case ListOf(inner):
            found = {"type": "array", "items": schema_of(inner)}
        case Document(parts=parts):
            members = {part.name: schema_of(part.codec) for part in parts}
            found = {"type": "object", "properties": members}
        case Anything():
            found = {}
        case Record(fields=fields) | Refined(record=Record(fields=fields)):
            found = _of_record(fields)
        case _:
            raise TypeError(f"{type(codec).__name__} has no JSON Schema here: add it")
    return found


def _of_record(fields: tuple[Field, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: schema_of(field.codec) for field in fields},
    }
    required = [field.name for field in fields if field.required]
    return {**found, "required": required} if required else found
