"""The declaration of an endpoint: its request, and the command that sends it.

The broker's router, its OpenAPI description, `magnetar admin` and the typed client are made from
these declarations.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import quote

from magnetar_proto.admin.bodies import Body
from magnetar_proto.admin.kinds import FLAG, NAMESPACE, SWITCH, TEXT, TOPIC, Kind
from magnetar_proto.names import NamespaceName, TopicName

ROOT = "/admin/v2/"
DOMAIN = "{domain:persistent|non-persistent}"
_LONG_FORMS = {
    "{domain}/{namespace}": f"{DOMAIN}/{{tenant}}/{{namespace}}",
    "{topic:name}": "{tenant}/{namespace}/{topic}",
    "{topic}": f"{DOMAIN}/{{tenant}}/{{namespace}}/{{topic}}",
    "{namespace}": "{tenant}/{namespace}",
}
_NAME = re.compile(r"\{(\w+)")
_SHORT = re.compile("|".join(map(re.escape, _LONG_FORMS)))


class Permission(Enum):
    """The permission that a request needs, and the status of a refusal for lack of it."""

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


class Parameter(NamedTuple):
    """A value in the path, the query or the body of a request, with the flag of its command.

    It is in the path if that names the parameter, and else in the query unless it says otherwise.
    """

    name: str
    flags: str = ""
    """The flags of the command, separated by commas."""
    kind: Kind = TEXT
    text: str = ""
    required: bool = False
    default: str | None = None
    """The value that the command sends if none is given, as the user would write it."""
    many: bool = False
    """Whether the flag can be repeated."""
    by_place: bool = False
    """Whether the command takes the value by position, without a flag."""
    sends_false: bool = False
    """Whether the command sends a flag that is not given, as `false`."""
    local: bool = False
    """Whether only the command uses the value, which is not sent as it is."""
    ignored: bool = False
    """Whether the broker ignores the value, which is sent as by pulsar-admin."""
    in_body: bool = False
    """Whether the value is a member of the body."""

    @property
    def in_command(self) -> bool:
        """Whether the command has the parameter."""
        return self.by_place or bool(self.flags)


def argument(name: str, kind: Kind, text: str, required: bool = True) -> Parameter:
    """Declare a parameter that the command takes by its place."""
    return Parameter(name, "", kind, text, required, by_place=True)


def option(name: str, flags: str, kind: Kind, text: str, **more: Any) -> Parameter:
    """Declare a parameter that the command takes behind a flag."""
    return Parameter(name, flags, kind, text, **more)


def flag(name: str, flags: str, text: str, **more: Any) -> Parameter:
    """Declare a parameter that is true if the command has its flag."""
    return Parameter(name, flags, FLAG, text, **more)


def member(name: str, flags: str, kind: Kind, text: str, **more: Any) -> Parameter:
    """Declare a member of the JSON object in the body, which the command takes behind a flag."""
    return Parameter(name, flags, kind, text, in_body=True, **more)


def switch(name: str, **more: Any) -> Parameter:
    """Declare a parameter that is set by --enable or --disable."""
    return Parameter(name, "-e, --enable, -d, --disable", SWITCH, "", **more)


def query(name: str, text: str, kind: Kind = TEXT) -> Parameter:
    """Declare a parameter of the query that the command does not have."""
    return Parameter(name, "", kind, text)


BODY = "body"
"""The name of a parameter that is the whole body."""


class Endpoint(NamedTuple):
    """One request of the admin API."""

    name: str
    """The module and the function of the broker that handle the request."""
    method: str
    path: str
    """The path, with `{topic}` and `{namespace}` in short for all parts of their names."""
    permission: Permission
    text: str
    """The description for the documentation and for --help."""
    words: str = ""
    """The group and name of its command; several ones are separated by commas."""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    runs: Runs = Runs.CONTROLLER
    success: tuple[int, ...] = ()
    """The statuses of success; if empty, 200 for a request that only reads and 204 for others."""
    refused: int = 0
    """The status of a refusal for lack of permission; 0 for the status that `permission` has."""
    reads: bool = False
    """Whether the request changes nothing although its method is not GET."""
    acts: bool | str = False
    """Whether a GET can change something, or the flag of the query with which it can."""
    names_topics: bool = False
    """Whether the body is a list of objects with topics, of which each needs the permission."""
    instead: tuple[str, str] | None = None
    """The name of a parameter, and the path to which the command sends the request with it."""
    media_type: str = "application/json"
    """The media type of the body."""
    as_text: bool = False
    """Whether the command shows the answer as text, even if it looks like JSON."""
    question: str = ""
    """The question that the user of the command must confirm, unless --force is given."""
    aliases: tuple[str, ...] = ()
    """Former names of the command, which still work."""

    @property
    def pattern(self) -> str:
        """The path in full, with every parameter."""
        return _SHORT.sub(lambda short: _LONG_FORMS[short[0]], self.path)

    def url(self, parts: Mapping[str, object]) -> str:
        """Return the path, percent-encoded, with these values of its parameters."""
        path = self.path
        if self.instead is not None and parts.get(self.instead[0]) is not None:
            path = self.instead[1]
        # Pulsar decodes the name of a subscription twice in paths of topics.
        twice = {"subscription"} if "{topic}" in path else ()
        return path.format_map({name: _Part(one, name in twice) for name, one in parts.items()})

    @property
    def query(self) -> tuple[Parameter, ...]:
        """The parameters of the query that the broker reads."""
        return tuple(p for p in self.parameters if self.is_in_query(p) and not p.ignored)

    def is_in_query(self, parameter: Parameter) -> bool:
        """Return whether a parameter of the endpoint is sent in the query."""
        elsewhere = parameter.local or parameter.in_body or parameter.name == BODY
        in_path = _NAME.findall(self.path + (self.instead[1] if self.instead else ""))
        return not elsewhere and parameter.name not in in_path

    @property
    def in_path(self) -> list[str]:
        """The names of the parameters in the path, without the parts of a topic's name."""
        return _NAME.findall(self.path)

    def changes(self, query: Mapping[str, str]) -> bool:
        """Return whether a request with this query can change something."""
        if isinstance(self.acts, str):
            return query.get(self.acts, "").lower() == "true"
        return self.acts or (self.method != "GET" and not self.reads)

    @property
    def refused_with(self) -> int:
        """The status of a refusal for lack of permission; 0 if everyone has the permission."""
        return self.refused or self.permission.refused

    @property
    def succeeds_with(self) -> tuple[int, ...]:
        """The statuses of success."""
        return self.success or (200 if self.method == "GET" or self.reads else 204,)

    @property
    def command_parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the command: those for what the path names, and its own."""
        own = {parameter.name for parameter in self.parameters}
        named = [name for name in self.in_path if name in IMPLIED and name not in own]
        return (
            *(IMPLIED[name] for name in named),
            *(one for one in self.parameters if one.in_command),
        )

    def commands(self) -> Iterator[tuple[str, str]]:
        """Yield the group and the name of each command that sends the request."""
        for words in self.words.split(", ") if self.words else ():
            group, _, name = words.partition(" ")
            yield group, name


class _Part:
    """A value in a path: `{topic}` includes the domain, `{topic:name}` does not."""

    def __init__(self, value: object, twice: bool) -> None:
        self._value = value
        self._twice = twice

    def __format__(self, form: str) -> str:
        value = self._value
        if isinstance(value, TopicName):
            name = f"{value.namespace_name}/{value.encoded_local}"
            return name if form == "name" else f"{value.domain}/{name}"
        if isinstance(value, NamespaceName):
            return str(value)
        once = quote(str(value), safe="")
        return quote(once, safe="") if self._twice else once


IMPLIED = {
    "topic": argument("topic", TOPIC, "Name of the topic."),
    "namespace": argument("namespace", NAMESPACE, "Name of the namespace, TENANT/NAMESPACE."),
    "tenant": argument("tenant", TEXT, "Name of the tenant."),
    "cluster": argument("cluster", TEXT, "Name of the cluster."),
    "group": argument("group", TEXT, "Name of the resource group."),
    "subscription": option(
        "subscription", "-s, --subscription", TEXT, "Name of the subscription.", required=True
    ),
    "role": option("role", "-r, --role", TEXT, "Name of the role.", required=True),
    "key": option("key", "-k, --key", TEXT, "Name of the property.", required=True),
}
"""The parameters of commands for what a path names, unless the command has its own."""


def endpoint(
    name: str,
    request: str,
    permission: Permission,
    text: str,
    words: str = "",
    *parameters: Parameter,
    **more: Any,
) -> Endpoint:
    """Declare an endpoint; `request` is its verb and its path, below /admin/v2/ if relative."""
    method, _, path = request.partition(" ")
    root = "" if path.startswith("/") else "/admin/" if path.startswith("v3/") else ROOT
    whole = root + path
    return Endpoint(name, method, whole, permission, text, words, parameters, **more)
