"""The commands of `magnetar admin`, made from the endpoints of the admin API."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar_proto.admin.endpoint import BODY, IMPLIED, Endpoint, Parameter
from magnetar_proto.admin.kinds import FLAG, SWITCH
from magnetar_proto.admin.table import endpoints_named

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

Values = dict[str, Any]
"""The values that the user gave, by parameter name; None for each value that was not given."""
Lines = Iterator[str]


class Contradiction(ValueError):
    """Parameters that cannot be combined, or one that is missing beside another."""


@dataclass(frozen=True, slots=True)
class Special:
    """The steps of a command that its endpoint does not declare.

    `fill` completes the values before the request; `run` does it where one request is not enough,
    and answers what is shown. An iterator is shown piece by piece.
    """

    body: "Callable[[Command, Values], object] | None" = None
    fill: "Callable[[Command, AdminClient, Values], None] | None" = None
    run: "Callable[[Command, AdminClient, Values], Any] | None" = None
    show: Callable[[Any], Lines] | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """One endpoint as a command."""

    endpoint: Endpoint
    name: str
    special: Special = Special()
    takes_subscription_by_place: bool = False
    hidden: bool = False
    aliases: tuple[str, ...] = ()
    """Former names, which still work."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments and options."""
        found = self.endpoint.command_parameters
        if not self.takes_subscription_by_place:
            return found
        return tuple(
            one._replace(flags="", by_place=True) if one == IMPLIED["subscription"] else one
            for one in found
        )

    @property
    def usage(self) -> str:
        """The command with its parameters, as the user writes them."""
        return " ".join((self.name, *map(usage_of, self.parameters)))

    def url(self, values: Values) -> str:
        """Return the path of the request, percent-encoded."""
        return self.endpoint.url({"domain": "persistent", **values})

    def query(self, values: Values) -> dict[str, str | list[str]]:
        """Return the query of the request."""
        return {
            one.name: query_text(values[one.name])
            for one in self.parameters
            if self.endpoint.is_in_query(one) and _is_sent(one, values)
        }

    def content(self, values: Values) -> object:
        """Return the body of the request; None for an empty one."""
        if self.special.body is not None:
            return self.special.body(self, values)
        return self.members(values) or values.get(BODY)

    def members(self, values: Values) -> dict[str, object]:
        """Return the members of the body that are given."""
        return {
            one.name: values[one.name]
            for one in self.parameters
            if one.in_body and values.get(one.name) is not None
        }


def command_of(name: str) -> Command:
    """Return the command of the endpoint with this name, for its requests."""
    return Command(endpoints_named(name)[0], name)


def flags_of(parameter: Parameter) -> tuple[str, ...]:
    """Return the flags of a parameter."""
    return tuple(parameter.flags.split(", ")) if parameter.flags else ()


def switch_flags(parameter: Parameter) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags that switch a parameter on, and those that switch it off."""
    flags = flags_of(parameter)
    return flags[: len(flags) // 2], flags[len(flags) // 2 :]


def switched(parameter: Parameter, on: bool, off: bool) -> bool:
    """Return whether a switch is on; Contradiction unless exactly one of its flags is given.

    If the parameter has a default, both flags may be missing.
    """
    if on != off or (not on and parameter.default):
        return on
    flags = " or ".join(max(some, key=len) for some in switch_flags(parameter))
    raise Contradiction(f"give {flags}, not both" if parameter.default else f"give either {flags}")


def usage_of(parameter: Parameter) -> str:
    """Return the text of a parameter in a usage line."""
    if parameter.kind == SWITCH:
        return " ".join(f"[{max(some, key=len)}]" for some in switch_flags(parameter))
    if parameter.by_place:
        text = parameter.name.upper()
        return text if parameter.required else f"[{text}]"
    text = max(flags_of(parameter), key=len)
    if parameter.kind != FLAG:
        text = f"{text} {parameter.kind.metavar}"
    if not parameter.required:
        text = f"[{text}]"
    return f"{text}..." if parameter.many else text


def query_text(value: object) -> str | list[str]:
    """Return a value in the form of a query; a list is repeated."""
    if isinstance(value, list):
        return [str(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_sent(parameter: Parameter, values: Values) -> bool:
    value = values.get(parameter.name)
    return value is not None and (value is not False or parameter.sends_false)
