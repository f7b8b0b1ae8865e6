"""The contract of a route: who may use it, where it runs, and what a request may contain."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class Permission(Enum):
    """The permission that a route needs, and the status of a refusal for lack of it."""

    OPEN = "everyone", 0
    AUTHENTICATED = "every authenticated role", 401
    PRODUCE = "produce", 401
    CONSUME = "consume", 401
    PRODUCE_OR_CONSUME = "produce or consume", 401
    TENANT_ADMIN = "admin of the tenant", 403
    SUPER_USER = "super-user", 401

    def __init__(self, text: str, refused: int) -> None:
        self.text = text
        self.refused = refused


class Runs(Enum):
    """The processes that answer a request, if the broker has several."""

    CONTROLLER = "controller"
    """The process with the HTTP port and the names; it also asks workers to open and close
    topics."""
    OWNER = "owner"
    """The worker that owns the topic, or each partition of it; the controller joins the answers."""
    ALL = "all workers"
    """Every worker; the controller joins the answers."""
    ALL_THEN_OWNER = "all workers, then the owner"
    """Every worker, for what it knows, then the owner of the topic or of each partition."""


OPEN, AUTHENTICATED = Permission.OPEN, Permission.AUTHENTICATED
PRODUCE, CONSUME = Permission.PRODUCE, Permission.CONSUME
PRODUCE_OR_CONSUME = Permission.PRODUCE_OR_CONSUME
TENANT_ADMIN, SUPER_USER = Permission.TENANT_ADMIN, Permission.SUPER_USER
CONTROLLER, OWNER, ALL = Runs.CONTROLLER, Runs.OWNER, Runs.ALL
ALL_THEN_OWNER = Runs.ALL_THEN_OWNER


class Query(NamedTuple):
    """An optional parameter of the query."""

    name: str
    text: str
    kind: str = "string"
    """The type in JSON Schema: string, boolean or integer."""
    choices: tuple[str, ...] = ()


class Body(NamedTuple):
    """The JSON body of a request."""

    schema: Mapping[str, Any]
    """The JSON Schema of the bodies that are accepted."""
    text: str = ""
    required: bool = True


FORCE = Query("force", "also if it is in use, or not empty", "boolean")
AUTHORITATIVE = Query("authoritative", "accepted from clients that were redirected", "boolean")
NOTHING: Mapping[str, Any] = {"type": "null"}
STRINGS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}
PROPERTIES = Body(
    {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
    "names and values",
    False,
)
