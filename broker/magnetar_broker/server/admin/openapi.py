"""The description of all routes in the form of OpenAPI 3.1, for clients and their generators."""

import re
from collections.abc import Iterable
from typing import Any

from magnetar_broker.base.version import VERSION
from magnetar_broker.server.admin.context import Handler
from magnetar_broker.server.http.table import Route
from magnetar_proto.admin.bodies import LONG, Schema
from magnetar_proto.admin.endpoint import Endpoint, Parameter, Permission

INTRODUCTION = (
    "The admin API of a Magnetar broker. Paths, bodies and statuses are those of Apache Pulsar 4."
)
WHOLE = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
IN_PATH: dict[str, Schema] = {
    "domain": {"type": "string", "enum": ["persistent", "non-persistent"]},
    "coordinator": LONG,
    "entry": LONG,
    "least": LONG,
    "ledger": LONG,
    "messages": WHOLE,
    "most": LONG,
    "position": WHOLE,
    "seconds": WHOLE,
    "timeout": LONG,
    "timestamp": LONG,
    "version": LONG,
}
"""The JSON Schema of path parameters that do not accept every text."""
REASON = {"$ref": "#/components/schemas/Refusal"}
PARAMETER = re.compile(r"\{(\w+)(?::([^}]*))?\}")


def subject_of(endpoint: Endpoint) -> str:
    """Return the subject of an endpoint: the name of the module that answers it, in words."""
    module = endpoint.name.rpartition(".")[0]
    if module.startswith("policies"):
        return "policies of topics" if "{topic}" in endpoint.path else "policies of namespaces"
    return module.rpartition(".")[2].replace("_", " ")


def is_alias(endpoint: Endpoint) -> bool:
    """Return whether a path ends in a slash: such a path is not described, but works, too."""
    return endpoint.path.endswith("/")


def path_of(endpoint: Endpoint) -> str:
    """Return the path with parameters in the form of OpenAPI."""
    return PARAMETER.sub(r"{\1}", endpoint.pattern)


def described(routes: Iterable[Route[Handler]]) -> dict[str, Any]:
    """Return the description of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint, _ in routes:
        if not is_alias(endpoint):
            paths.setdefault(path_of(endpoint), {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Magnetar", "version": VERSION, "description": INTRODUCTION},
        "paths": paths,
        "components": {
            "schemas": {
                "Refusal": {
                    "type": "object",
                    "properties": {"reason": {"type": "string"}},
                    "required": ["reason"],
                }
            }
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    words = [endpoint.method.lower(), *re.findall(r"[\w-]+", path_of(endpoint))]
    operation: dict[str, Any] = {
        "operationId": "_".join(words).replace("-", "_"),
        "summary": endpoint.text,
        "tags": [subject_of(endpoint)],
        "parameters": [*_in_path(endpoint), *_in_query(endpoint)],
        "responses": _responses(endpoint),
        "x-permission": endpoint.permission.text,
        "x-runs": endpoint.runs.value,
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "description": endpoint.body.text,
            "required": endpoint.body.required,
            "content": {"application/json": {"schema": endpoint.body.schema}},
        }
    return operation


def _in_path(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _schema_in_path(name, choices),
        }
        for name, choices in PARAMETER.findall(endpoint.pattern)
    ]


def _schema_in_path(name: str, choices: str) -> Schema:
    if choices:
        return {"type": "string", "enum": choices.split("|")}
    return IN_PATH.get(name, {"type": "string", "minLength": 1})


def _in_query(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": parameter.name,
            "in": "query",
            "description": parameter.text,
            "schema": _schema_in_query(parameter),
        }
        for parameter in endpoint.query
    ]


def _schema_in_query(parameter: Parameter) -> Schema:
    kind = parameter.kind
    return {"type": kind.json, "enum": list(kind.choices)} if kind.choices else {"type": kind.json}


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(status): {"description": "done" if status == 204 else "the answer"}
        for status in endpoint.succeeds_with
    }
    if endpoint.permission is not Permission.OPEN:
        who = f"the request is not by {endpoint.permission.text}"
        responses[str(endpoint.refused_with)] = _refusal(who)
    responses["4XX"] = _refusal("refused, with the reason")
    responses["501"] = _refusal("what is asked for is not here")
    responses["503"] = _refusal("the broker, or the topic, cannot answer now: retry")
    return responses


def _refusal(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": REASON}}}
