"""The names of schemas in options of commands."""

import json

from magnetar.base.schema_info import SchemaInfo
from magnetar.schema.base import Encoded
from magnetar.schema.primitives import String
from magnetar_proto import PulsarApi_pb2 as pb


def schema_from_text(text: str) -> Encoded | None:
    """Return the schema named by `bytes`, `string` or `json:DEFINITION`; None for bytes.

    DEFINITION is an Avro schema in JSON.  ValueError for any other text.
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
    raise ValueError(f"expected the schema bytes, string or json:DEFINITION, got {text!r}")
