"""The schema registry over REST."""

import json
from typing import Any

from conformance.differences import differs
from conformance.rest_differences import REFUSED
from conformance.trace import Trace

INT, LONG, STRING = "int", "long", "string"


def _path(t: Trace) -> str:
    return f"schemas/public/default/{t.token}"


def _record(**fields: str) -> str:
    """An Avro record whose fields have these types; those that end in `?` may be absent."""
    written: list[dict[str, Any]] = []
    for name, kind in fields.items():
        if kind.endswith("?"):
            written.append({"name": name, "type": ["null", kind[:-1]], "default": None})
        else:
            written.append({"name": name, "type": kind})
    return json.dumps({"type": "record", "name": "Order", "fields": written})


def _avro(schema: str, kind: str = "AVRO", **properties: str) -> dict[str, Any]:
    return {"type": kind, "schema": schema, "properties": properties}


def _posts(t: Trace, body: Any) -> None:
    t.rest("POST", f"{_path(t)}/schema", body)


def a_topic_without_a_schema(t: Trace) -> None:
    t.rest("PUT", t.path)
    t.rest("GET", f"{_path(t)}/schema")
    t.rest("GET", f"{_path(t)}/schema/0")
    t.rest("GET", f"{_path(t)}/schemas")
    t.rest("GET", f"{_path(t)}/metadata")
    t.rest("DELETE", f"{_path(t)}/schema")


def a_schema_of_a_topic_that_is_not_there(t: Trace) -> None:
    t.rest("GET", f"{_path(t)}/schema")
    _posts(t, _avro(_record(a=INT)))
    t.rest("GET", f"{_path(t)}/schema")


def a_schema_in_a_namespace_that_is_not_there(t: Trace) -> None:
    t.rest("GET", f"schemas/public/{t.token}/topic/schema")
    t.rest("POST", f"schemas/public/{t.token}/topic/schema", _avro(_record(a=INT)))


def a_schema_comes_and_goes(t: Trace) -> None:
    _posts(t, _avro(_record(a=INT), colour="green"))
    t.rest("GET", f"{_path(t)}/schema")
    t.rest("GET", f"{_path(t)}/schema/0")
    t.rest("GET", f"{_path(t)}/schema/1")
    t.rest("DELETE", f"{_path(t)}/schema")
    t.rest("GET", f"{_path(t)}/schema")
    t.rest("DELETE", f"{_path(t)}/schema")


def a_schema_that_is_known(t: Trace) -> None:
    _posts(t, _avro(_record(a=INT)))
    _posts(t, _avro(_record(a=INT)))
    t.rest("GET", f"{_path(t)}/schemas")


def versions_follow_each_other(t: Trace) -> None:
    _posts(t, _avro(_record(a=INT)))
    _posts(t, _avro(_record(a=INT, b="string?")))
    t.rest("GET", f"{_path(t)}/schema")
    t.rest("GET", f"{_path(t)}/schema/0")
    t.rest("GET", f"{_path(t)}/schema/7")
    t.rest("GET", f"{_path(t)}/schemas")
    t.rest("POST", f"{_path(t)}/version", _avro(_record(a=INT)))
    t.rest("POST", f"{_path(t)}/version", _avro(_record(c=INT)))


def numbering_goes_on_after_a_deletion(t: Trace) -> None:
    _posts(t, _avro(_record(a=INT)))
    _posts(t, _avro(_record(a=INT, b="string?")))
    t.rest("DELETE", f"{_path(t)}/schema")
    _posts(t, _avro(_record(c=INT)))
    t.rest("GET", f"{_path(t)}/schema")
    t.rest("GET", f"{_path(t)}/schemas")


def deletion_by_force_begins_anew(t: Trace) -> None:
    _posts(t, _avro(_record(a=INT)))
    _posts(t, _avro(_record(a=INT, b="string?")))
    t.rest("DELETE", f"{_path(t)}/schema?force=true")
    t.rest("GET", f"{_path(t)}/schema")
    _posts(t, _avro(_record(c=INT)))
    t.rest("GET", f"{_path(t)}/schema")


@differs(REFUSED)
def an_incompatible_schema(t: Trace) -> None:
    _posts(t, _avro(_record(a=INT)))
    _posts(t, _avro(_record(a=INT, b=STRING)))
    t.rest("POST", f"{_path(t)}/compatibility", _avro(_record(a=INT, b="string?")))
    t.rest("POST", f"{_path(t)}/compatibility", _avro(_record(a=INT, b=STRING)))


def another_type(t: Trace) -> None:
    _posts(t, _avro(_record(a=INT)))
    _posts(t, _avro(_record(a=INT), kind="JSON"))
    _posts(t, {"type": "STRING", "schema": "", "properties": {}})


def types_without_a_definition(t: Trace) -> None:
    _posts(t, {"type": "STRING", "schema": "", "properties": {}})
    t.rest("GET", f"{_path(t)}/schema")
    _posts(t, {"type": "INT64", "schema": "", "properties": {}})


@differs(REFUSED)
def schemas_that_are_none(t: Trace) -> None:
    _posts(t, _avro("{nonsense"))
    _posts(t, _avro('{"type": "record"}'))
    _posts(t, _avro("{nonsense", kind="JSON"))
    _posts(t, {"type": "NONSENSE", "schema": "{}", "properties": {}})
    _posts(t, b"{nonsense")


@differs(REFUSED)
def a_schema_without_a_type(t: Trace) -> None:
    _posts(t, {"schema": _record(a=INT), "properties": {}})


def a_schema_of_json(t: Trace) -> None:
    _posts(t, _avro(_record(a=INT), kind="JSON"))
    t.rest("GET", f"{_path(t)}/schema")
    _posts(t, _avro(_record(a=LONG), kind="JSON"))


def a_schema_of_keys_and_values(t: Trace) -> None:
    parts = {"key": json.loads(_record(k=INT)), "value": json.loads(_record(a=INT))}
    properties = {
        "key.schema.name": "",
        "key.schema.type": "AVRO",
        "key.schema.properties": "{}",
        "value.schema.name": "",
        "value.schema.type": "AVRO",
        "value.schema.properties": "{}",
        "kv.encoding.type": "INLINE",
    }
    body = {"type": "KEY_VALUE", "schema": json.dumps(parts), "properties": properties}
    _posts(t, body)
    t.rest("GET", f"{_path(t)}/schema")


def schemas_of_partitions_are_those_of_the_topic(t: Trace) -> None:
    t.has_partitions(2)
    t.rest("POST", f"{_path(t)}-partition-0/schema", _avro(_record(a=INT)))
    t.rest("GET", f"{_path(t)}/schema")
    t.rest("GET", f"{_path(t)}-partition-1/schema")


def a_schema_goes_with_its_topic(t: Trace) -> None:
    t.rest("PUT", t.path)
    _posts(t, _avro(_record(a=INT)))
    t.rest("DELETE", t.path)
    t.rest("GET", f"{_path(t)}/schema")


@differs(REFUSED)
def strategies_of_the_namespace(t: Trace) -> None:
    namespace = f"namespaces/public/{t.token}"
    path = f"schemas/public/{t.token}/topic"
    t.rest("PUT", namespace, {"bundles": {"numBundles": 1}})
    t.rest("PUT", f"{namespace}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    t.rest("POST", f"{path}/schema", _avro(_record(a=INT)))
    t.rest("POST", f"{path}/schema", _avro(_record(b=STRING)))
    t.rest("PUT", f"{namespace}/schemaCompatibilityStrategy", "BACKWARD")
    t.rest("POST", f"{path}/compatibility", _avro(_record(c=STRING)))
    t.rest("POST", f"{path}/schema", _avro(_record(c=STRING)))
    t.rest("PUT", f"{namespace}/schemaCompatibilityStrategy", "ALWAYS_INCOMPATIBLE")
    t.rest("POST", f"{path}/schema", _avro(_record(b=STRING, d="int?")))
