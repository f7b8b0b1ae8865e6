"""The equality of Avro schemas: white space, order of keys, `doc` and aliases do not matter.

Order and defaults of fields, names with their namespaces, symbols, sizes and further properties
(logical types among them) count.  White space, the order of keys in the text, `doc`, aliases, and
how a name is written do not.
"""

import json
from typing import Any

from magnetar_broker.schemas.avro import (
    NO_DEFAULT,
    AvroType,
    Collection,
    Enumeration,
    Field,
    Fixed,
    Named,
    Record,
    Union,
)


def identity(schema: AvroType) -> bytes:
    """Return bytes that are equal if and only if schemas are equal."""
    form = _form(schema, set())
    return json.dumps(form, sort_keys=True, separators=(",", ":")).encode()


def _form(schema: AvroType, defined: set[str]) -> Any:
    """Return JSON that defines a type at its first use, and refers to it by name afterwards."""
    if isinstance(schema, Union):
        return [_form(branch, defined) for branch in schema.branches]
    if isinstance(schema, Named):
        if schema.name in defined:
            return schema.name
        defined.add(schema.name)
    form = dict(schema.properties)
    if isinstance(schema, Collection):
        form["item"] = _form(schema.item, defined)
    elif isinstance(schema, Enumeration):
        form |= {"name": schema.name, "symbols": schema.symbols, "default": schema.default}
    elif isinstance(schema, Fixed):
        form |= {"name": schema.name, "size": schema.size}
    elif isinstance(schema, Record):
        fields = [_field_form(one, defined) for one in schema.fields]
        form |= {"name": schema.name, "fields": fields}
    return {**form, "type": schema.kind} if form else schema.kind


def _field_form(field: Field, defined: set[str]) -> dict[str, Any]:
    form = {**field.properties, "name": field.name, "type": _form(field.type, defined)}
    if field.default is not NO_DEFAULT:
        form["default"] = field.default
    if field.order != "ascending":
        form["order"] = field.order
    return form
