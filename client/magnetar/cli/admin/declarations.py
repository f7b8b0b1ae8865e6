"""The declaration of a command: its request, its parameters, and how the answer is shown.

A command is data. `commands.py` makes a command line of it, `docs.py` a line of the documentation.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from magnetar.cli.admin.kinds import TEXT, Kind
from magnetar_proto.names import NamespaceName, TopicName

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

Values = dict[str, Any]
"""The values that the user gave, by parameter name; None for each value that was not given."""
Lines = Iterator[str]


class Contradiction(ValueError):
    """Parameters that cannot be combined, or one that is missing beside another."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument, or with `flags` an option.

    Its value goes where `query` or `member` says, or where the command's path or body names it.
    """

    name: str
    help: str
    flags: tuple[str, ...] = ()
    kind: Kind | None = TEXT
    """The kind of its value; None for a flag without a value."""
    required: bool = False
    default: str | None = None
    """The default value, as the user would write it."""
    many: bool = False
    query: str = ""
    sends_false: bool = False
    """Whether a flag that is not given is sent in the query as `false`."""
    member: str = ""
    """The member of the JSON object in the body that has the value."""

    @property
    def usage(self) -> str:
        """The text of the parameter in a usage line."""
        if not self.flags:
            text = self.name.upper()
            return text if self.required else f"[{text}]"
        text = max(self.flags, key=len)
        if self.kind is not None:
            text = f"{text} {self.kind.metavar}"
        if not self.required:
            text = f"[{text}]"
        return f"{text}..." if self.many else text


def argument(name: str, help: str, kind: Kind = TEXT, required: bool = True) -> Parameter:
    """Declare a parameter that is given by its place."""
    return Parameter(name, help, kind=kind, required=required)


def option(flags: str, help: str, kind: Kind = TEXT, **more: Any) -> Parameter:
    """Declare a parameter that is given by a flag; the longest of `flags` names it."""
    return _optional(flags, help, kind, **more)


def flag(flags: str, help: str, **more: Any) -> Parameter:
    """Declare a flag without a value."""
    return _optional(flags, help, None, **more)


def _optional(flags: str, help: str, kind: Kind | None, **more: Any) -> Parameter:
    texts = tuple(text.strip() for text in flags.split(","))
    name = max(texts, key=len).lstrip("-").replace("-", "_")
    return Parameter(name, help, texts, kind, **more)


@dataclass(frozen=True, slots=True)
class Command:
    """One request to the broker, with the path's parameters in braces.

    `fill` completes the values before it; `run` does it where one request is not enough, and
    answers what is shown. An iterator is shown piece by piece.
    """

    name: str
    help: str
    method: str
    path: str
    parameters: tuple[Parameter, ...] = ()
    other_path: tuple[str, str] | None = None
    """The name of a parameter, and the path that is used instead of `path` if it is given."""
    body: Callable[[Values], object] | None = None
    fill: "Callable[[AdminClient, Values], None] | None" = None
    run: "Callable[[AdminClient, Values], Any] | None" = None
    show: Callable[[Any], Lines] | None = None
    media_type: str = "application/json"
    """The media type of the body."""
    as_text: bool = False
    """Whether the answer is text, even if it looks like JSON."""
    question: str = ""
    """The question that the user must confirm, unless the parameter `force` is given."""
    aliases: tuple[str, ...] = ()
    """Former names, which still work."""
    hidden: bool = False

    @property
    def usage(self) -> str:
        """The command with its parameters, as the user writes them."""
        return " ".join((self.name, *(one.usage for one in self.parameters)))

    def url(self, values: Values) -> str:
        """Return the path of the request, percent-encoded."""
        path = self.path
        if self.other_path is not None and values.get(self.other_path[0]) is not None:
            path = self.other_path[1]
        return path.format_map({name: _Part(value) for name, value in values.items()})

    def query(self, values: Values) -> dict[str, str | list[str]]:
        """Return the query of the request."""
        return {
            one.query: query_text(values[one.name])
            for one in self.parameters
            if one.query and self._is_sent(one, values)
        }

    @staticmethod
    def _is_sent(parameter: Parameter, values: Values) -> bool:
        value = values.get(parameter.name)
        return value is not None and (value is not False or parameter.sends_false)

    def content(self, values: Values) -> object:
        """Return the body of the request; None for an empty one."""
        if self.body is not None:
            return self.body(values)
        return members(self.parameters, values) or None


def members(parameters: tuple[Parameter, ...], values: Values) -> dict[str, object]:
    """Return the JSON object of all parameters that have a `member`."""
    return {
        one.member: values[one.name]
        for one in parameters
        if one.member and values.get(one.name) is not None
    }


def whole_body(name: str) -> Callable[[Values], object]:
    """Return a function that makes the value of one parameter the body."""
    return lambda values: values[name]


def chosen(values: Mapping[str, Any], **choices: object) -> Any:
    """Return the choice whose flag is given; Contradiction unless exactly one flag is given."""
    given = [choice for name, choice in choices.items() if values.get(name)]
    if len(given) != 1:
        flags = " or ".join(f"--{name.replace('_', '-')}" for name in choices)
        raise Contradiction(f"give {flags}, one of them")
    return given[0]


def query_text(value: object) -> str | list[str]:
    """Return a value in the form of a query; a list is repeated."""
    if isinstance(value, list):
        return [str(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Part:
    """A value in a path: `{topic}` includes the domain, `{topic:name}` does not.

    `{subscription:twice}` is encoded twice: Pulsar decodes it twice in paths of topics.
    """

    def __init__(self, value: object) -> None:
        self._value = value

    def __format__(self, form: str) -> str:
        value = self._value
        if isinstance(value, TopicName):
            name = f"{value.namespace_name}/{value.encoded_local}"
            return name if form == "name" else f"{value.domain}/{name}"
        if isinstance(value, NamespaceName):
            return str(value)
        once = quote(str(value), safe="")
        return quote(once, safe="") if form == "twice" else once
