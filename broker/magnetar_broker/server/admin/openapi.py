"""The description of all routes in the form of OpenAPI 3.1, for clients and their generators."""

import re
from collections.abc import Iterable
from typing import Any

from magnetar_broker.base.version import VERSION
from magnetar_broker.server.admin.context import Handler
from magnetar_broker.server.http.contract import Permission
from magnetar_broker.server.http.table import Route

INTRODUCTION = (
    "The admin API of a Magnetar broker. Paths, bodies and statuses are those of Apache Pulsar 4."
)
WHOLE = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
LONG = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
IN_PATH: dict[str, dict[str, Any]] = {
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


def summary_of(route: Route[Handler]) -> str:
    """Return what a route does, on one line."""
    text = route.text or (route.handler.__doc__ or "").partition("\n\n")[0]
    return " ".join(text.split())


def subject_of(route: Route[Handler]) -> str:
    """Return the subject of a route: the name of the module that answers it, in words."""
    module = route.handler.__module__.removeprefix(f"{__package__}.")
    if module.startswith("policies."):
        return "policies of topics" if "{topic}" in route.pattern else "policies of namespaces"
    return module.replace("_", " ")


def is_alias(route: Route[Handler]) -> bool:
    """Return whether a path ends in a slash: such a path is not described, but works, too."""
    return route.pattern.endswith("/")


def path_of(route: Route[Handler]) -> str:
    """Return the path with parameters in the form of OpenAPI."""
    return PARAMETER.sub(r"{\1}", route.pattern)


def described(routes: Iterable[Route[Handler]]) -> dict[str, Any]:
    """Return the description of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if not is_alias(route):
            paths.setdefault(path_of(route), {})[route.method.lower()] = _operation(route)
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


def _operation(route: Route[Handler]) -> dict[str, Any]:
    words = [route.method.lower(), *re.findall(r"[\w-]+", path_of(route))]
    operation: dict[str, Any] = {
        "operationId": "_".join(words).replace("-", "_"),
        "summary": summary_of(route),
        "tags": [subject_of(route)],
        "parameters": [*_in_path(route), *_in_query(route)],
        "responses": _responses(route),
        "x-permission": route.permission.text,
        "x-runs": route.runs.value,
    }
    if route.body is not None:
        operation["requestBody"] = {
            "description": route.body.text,
            "required": route.body.required,
            "content": {"application/json": {"schema": route.body.schema}},
        }
    return operation


def _in_path(route: Route[Handler]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _schema_in_path(name, choices),
        }
        for name, choices in PARAMETER.findall(route.pattern)
    ]


def _schema_in_path(name: str, choices: str) -> dict[str, Any]:
    if choices:
        return {"type": "string", "enum": choices.split("|")}
    return IN_PATH.get(name, {"type": "string", "minLength": 1})


def _in_query(route: Route[Handler]) -> list[dict[str, Any]]:
    found = []
    for parameter in route.query:
        schema: dict[str, Any] = {"type": parameter.kind}
        if parameter.choices:
            schema["enum"] = list(parameter.choices)
        found.append(
            {
                "name": parameter.name,
                "in": "query",
                "description": parameter.text,
                "schema": schema,
            }
        )
    return found


def _responses(route: Route[Handler]) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(status): {"description": "done" if status == 204 else "the answer"}
        for status in route.succeeds_with
    }
    if route.permission is not Permission.OPEN:
        who = f"the request is not by {route.permission.text}"
        responses[str(route.refused_with)] = _refusal(who)
    responses["4XX"] = _refusal("refused, with the reason")
    responses["501"] = _refusal("what is asked for is not here")
    responses["503"] = _refusal("the broker, or the topic, cannot answer now: retry")
    return responses


def _refusal(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": REASON}}}
