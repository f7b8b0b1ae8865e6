"""Schemas over REST: headers, types and bad input."""

from typing import Any

from conformance.differences import differs
from conformance.rest_differences import REFUSED, SCHEMA_NOWHERE
from conformance.trace import Trace

STRING: dict[str, Any] = {"type": "STRING", "schema": "", "properties": {}}
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'
AVRO: dict[str, Any] = {"type": "AVRO", "schema": RECORD, "properties": {"colour": "green"}}


def _path(t: Trace) -> str:
    return f"schemas/public/default/{t.token}"


def the_answers_about_a_schema(t: Trace) -> None:
    t.web("POST", f"{_path(t)}/schema", AVRO)
    t.web("GET", f"{_path(t)}/schema")
    t.web("GET", f"{_path(t)}/schema/0")
    t.web("GET", f"{_path(t)}/schemas")
    t.web("POST", f"{_path(t)}/version", AVRO)
    t.web("POST", f"{_path(t)}/compatibility", AVRO)
    t.web("DELETE", f"{_path(t)}/schema")
    t.web("GET", f"{_path(t)}/schema")


def a_schema_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"{_path(t)}/schema")
    t.web("GET", f"{_path(t)}/schema/0")
    t.web("GET", f"{_path(t)}/schemas")
    t.web("GET", f"{_path(t)}/metadata")
    t.web("POST", f"{_path(t)}/version", STRING)
    t.web("POST", f"{_path(t)}/compatibility", STRING)
    t.web("DELETE", f"{_path(t)}/schema")


def versions_that_are_none(t: Trace) -> None:
    t.web("POST", f"{_path(t)}/schema", STRING)
    t.web("GET", f"{_path(t)}/schema/7")
    t.web("GET", f"{_path(t)}/schema/-1")


@differs(REFUSED)
def a_version_that_is_a_word(t: Trace) -> None:
    t.web("POST", f"{_path(t)}/schema", STRING)
    t.web("GET", f"{_path(t)}/schema/first")


def bodies_that_are_no_schema(t: Trace) -> None:
    t.web("POST", f"{_path(t)}/schema", b"{")
    t.web("POST", f"{_path(t)}/schema", b"[1]")
    t.web("POST", f"{_path(t)}/schema", b'"text"')
    t.web("POST", f"{_path(t)}/schema", {**AVRO, "schema": "{nonsense"})
    t.web("POST", f"{_path(t)}/schema", {**AVRO, "schema": ""})
    t.web("GET", f"{_path(t)}/schema")


@differs(REFUSED)
def a_type_that_is_none(t: Trace) -> None:
    t.web("POST", f"{_path(t)}/schema", {**STRING, "type": "NOTHING"})


def a_schema_that_does_not_fit(t: Trace) -> None:
    t.web("POST", f"{_path(t)}/schema", AVRO)
    t.web("POST", f"{_path(t)}/schema", {**AVRO, "schema": RECORD.replace("string", "long")})
    t.web("POST", f"{_path(t)}/schema", STRING)
    t.web("GET", f"{_path(t)}/schemas", types=True)


def a_schema_of_a_namespace_that_is_not_there(t: Trace) -> None:
    t.web("GET", f"schemas/public/{t.token}/topic/schema")
    t.web("POST", f"schemas/public/{t.token}/topic/schema", STRING)


@differs(SCHEMA_NOWHERE)
def a_schema_that_is_deleted_nowhere(t: Trace) -> None:
    t.web("DELETE", f"schemas/public/{t.token}/topic/schema")
