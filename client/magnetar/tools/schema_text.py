"""Schemas as options of commands name them."""

import json

from magnetar.schema.base import Encoded
from magnetar.schema.info import SchemaInfo
from magnetar.schema.primitives import String
from magnetar_proto import PulsarApi_pb2 as pb


def schema_from_text(text: str) -> Encoded | None:
    """The schema that `bytes`, `string` or `json:DEFINITION` names; None for bytes.

    DEFINITION is an Avro schema in JSON.  ValueError says what else is wrong.
    """
    kind, _, definition = text.partition(":")
    if kind == "bytes" and not definition:
        return None
    if kind == "string" and not definition:
        return Encoded(String.info)
    if kind == "json":
        try:
            json.loads(definition)
        except ValueError as error:
            raise ValueError(f"the definition of the schema is not JSON: {error}") from error
        return Encoded(SchemaInfo(pb.Schema.Json, definition.encode(), "Json"))
    if kind in ("avro", "protobuf", "keyvalue"):
        raise ValueError(f"values cannot be encoded as {kind}: use bytes, string or json:...")
    raise ValueError(f"{text!r} is no schema: use bytes, string or json:DEFINITION")
