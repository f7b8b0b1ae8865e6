"""Schemas that a producer can register."""

import json
from dataclasses import dataclass

from magnetar_proto import PulsarApi_pb2 as pb


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a topic's values; the application encodes them."""

    type: int
    definition: bytes = b""
    name: str = ""

    def to_pb(self) -> pb.Schema:
        """As it is sent to the broker."""
        return pb.Schema(
            name=self.name,
            type=self.type,  # type: ignore[arg-type]
            schema_data=self.definition,
        )


STRING = Schema(pb.Schema.String, name="String")


def schema_from_text(text: str) -> Schema | None:
    """The schema that `bytes`, `string` or `json:DEFINITION` names; None for bytes.

    DEFINITION is an Avro schema in JSON.  ValueError says what else is wrong.
    """
    kind, _, definition = text.partition(":")
    if kind == "bytes" and not definition:
        return None
    if kind == "string" and not definition:
        return STRING
    if kind == "json":
        try:
            json.loads(definition)
        except ValueError as error:
            raise ValueError(f"the definition of the schema is not JSON: {error}") from error
        return Schema(pb.Schema.Json, definition.encode(), "Json")
    if kind in ("avro", "protobuf", "keyvalue"):
        raise ValueError(f"values cannot be encoded as {kind}: use bytes, string or json:...")
    raise ValueError(f"{text!r} is no schema: use bytes, string or json:DEFINITION")
