"""`magnetar admin`: the declared commands as a command line.

A group is imported when it is used, and a command is built when it is called.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from magnetar.admin import settings
from magnetar.cli.admin.declarations import (
    Command,
    Contradiction,
    Special,
    Values,
    flags_of,
    switch_flags,
    switched,
    usage_of,
)
from magnetar.cli.admin.kinds import joined, parse
from magnetar.cli.options import ADMIN_URL, login_options
from magnetar.security.client_conf import SettingsError, read_conf
from magnetar_proto.admin.endpoint import Endpoint, Parameter
from magnetar_proto.admin.kinds import FLAG, PAIRS, SWITCH, Kind
from magnetar_proto.admin.table import all_endpoints

REFUSED: Final = 1
NO_ANSWER: Final = 3
INTERRUPTED: Final = 130
PLAIN: Final = Special()

GROUPS: Final = {
    "clusters": "Clusters, and their addresses.",
    "tenants": "Tenants: who administers what.",
    "namespaces": "Namespaces, their policies, permissions and bundles.",
    "topics": "Topics, their messages and statistics.",
    "topicPolicies": "Policies of single topics.",
    "subscriptions": "Subscriptions: their position and backlog.",
    "schemas": "Schemas of topics.",
    "resourcegroups": "Resource groups, which are stored without effect.",
    "brokers": "Brokers, their health and configuration.",
    "broker-stats": "Statistics of the whole broker.",
    "transactions": "Transactions and their coordinators.",
}
MODULES: Final = {
    "topics": ("topics", "messages", "subscriptions", "letters", "damage", "policies"),
    "subscriptions": ("subscriptions", "messages", "letters"),
    "namespaces": ("namespaces", "policies"),
    "topicPolicies": ("policies",),
    "broker-stats": ("broker_stats",),
    "resourcegroups": (),
    "transactions": (),
}
"""The modules with what is special about the commands of a group; by default its own."""
FORMER: Final = {
    "backlog-quota": "backlog-quotas",
    "max-producers": "maxProducers",
    "max-subscriptions-per-topic": "max-subscriptions",
    "max-unacked-messages-per-consumer": "max-unacked-messages-on-consumer",
    "max-unacked-messages-per-subscription": "max-unacked-messages-on-subscription",
}
"""Policies whose former commands of `topics` have other names than those of `topicPolicies`."""


def commands_of(group: str) -> tuple[Command, ...]:
    """Return the commands of a group."""
    modules = [_special_in(name) for name in MODULES.get(group, (group,))]
    specials = {name: one for module in modules for name, one in module.SPECIALS.items()}
    found = [
        Command(one, name, _special(one, specials), group == "subscriptions", aliases=one.aliases)
        for one in all_endpoints()
        for in_group, name in one.commands()
        if in_group == group
    ]
    found += [one for module in modules for one in getattr(module, "MORE", {}).get(group, ())]
    return (*found, *_former()) if group == "topics" else tuple(found)


def _special_in(module: str) -> Any:
    return import_module(f"magnetar.cli.admin.groups.{module}")


def _special(endpoint: Endpoint, specials: dict[str, Special]) -> Special:
    found = specials.get(endpoint.name, PLAIN)
    if endpoint.method == "GET" and found.show is None and endpoint.name.startswith("policies."):
        from magnetar.cli.admin.showing import policy_lines  # noqa: PLC0415

        return replace(found, show=policy_lines)
    return found


def _former() -> Iterator[Command]:
    """Yield the policies of topics under their former names, hidden: topicPolicies has them now."""
    for command in commands_of("topicPolicies"):
        verb, separator, policy = command.name.partition("-")
        if separator:
            former = FORMER.get(policy)
            aliases = (f"{verb}-{former}",) if former else ()
            yield replace(command, hidden=True, aliases=aliases)


class RefusedByBroker(click.ClickException):
    """Reports that the broker refused the request."""

    exit_code = REFUSED


class Unreachable(click.ClickException):
    """Reports that no answer came, so that the outcome is unknown."""

    exit_code = NO_ANSWER


@dataclass(slots=True)
class Session:
    """The values of the flags in front of the group."""

    flags: dict[str, Any]
    conf_path: str | None
    as_json: bool

    def settings(self) -> settings.AdminSettings:
        """Return the settings from the flags and `client.conf`."""
        return settings.settings_from(read_conf(self.conf_path), **self.flags)


# Groups -----------------------------------------------------------------------------------


class Suggesting(click.Group):
    """Suggests the nearest words when a command does not exist."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = get_close_matches(name, self.list_commands(ctx), n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"see {ctx.command_path} -h"
            ctx.fail(f"{ctx.command_path} has no command {name}: {hint}")
        return super().resolve_command(ctx, args)


class Groups(Suggesting):
    """The groups of `magnetar admin`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(GROUPS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return DeclaredGroup(name) if name in GROUPS else None


class DeclaredGroup(Suggesting):
    """The commands of one group."""

    def __init__(self, name: str) -> None:
        super().__init__(name, help=GROUPS[name], context_settings=CONTEXT)
        self._declared: dict[str, Command] | None = None

    def declared(self) -> dict[str, Command]:
        """Return the declarations, by all their names."""
        if self._declared is None:
            found = commands_of(self.name or "")
            self._declared = {one.name: one for one in found}
            self._declared |= {alias: one for one in found for alias in one.aliases}
        return self._declared

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [
            name for name, one in self.declared().items() if not one.hidden and name == one.name
        ]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        found = self.declared().get(name)
        return None if found is None else built(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.declared()[name].endpoint.text) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, text.split(". ")[0].rstrip(".") + ".") for name, text in rows]
            )


CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


@click.group(cls=Groups, context_settings=CONTEXT)
@ADMIN_URL("url", help=f"Address of the HTTP port; default {settings.DEFAULT_URL}.")
@login_options
@click.option("--request-timeout", "timeout_s", type=click.FloatRange(0, min_open=True),
              metavar="SECONDS", help="Time limit of a request; default 300.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print answers as JSON instead of tables.")
@click.pass_context
def admin(context: click.Context, /, conf_path: str | None, as_json: bool, **flags: Any) -> None:
    """Administer a broker over its admin API, with the words of pulsar-admin.

    Exit codes: 0 done, 1 refused by the broker, 2 wrong usage, 3 no answer.
    """
    context.obj = Session(flags, conf_path, as_json)


# Commands ---------------------------------------------------------------------------------


if TYPE_CHECKING:
    Type = click.ParamType[Any]
else:
    Type = click.ParamType  # older versions of click have no type parameter


class Typed(Type):
    """The click type of a kind of parameter."""

    def __init__(self, kind: Kind) -> None:
        self.name = kind.metavar
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse(self._kind, value)
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self._kind.metavar

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        choices = self._kind.metavar.split("|") if self._kind.choices else ()
        return [CompletionItem(one) for one in choices if one.startswith(incomplete)]


def built(command: Command) -> click.Command:
    """Build the click command of a declared command."""
    endpoint = command.endpoint
    parameters = [made for one in command.parameters for made in _parameters(one)]
    if endpoint.question:
        parameters.append(
            click.Option(["--force", "-f", "-force"], is_flag=True, help="Ask nothing.")
        )
    parameters.append(click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."))
    return click.Command(
        command.name,
        params=parameters,
        callback=_callback(command),
        help=f"{endpoint.text}\n\n{endpoint.method} {endpoint.path}",
        hidden=command.hidden,
        context_settings=CONTEXT,
    )


def _parameters(parameter: Parameter) -> Iterator[click.Parameter]:
    name, kind = parameter.name, parameter.kind
    if parameter.by_place:
        usage, required = usage_of(parameter), parameter.required
        yield click.Argument([name], type=Typed(kind), required=required, metavar=usage)
    elif kind == SWITCH:
        on, off = switch_flags(parameter)
        yield click.Option([*on, f"{name}_on"], is_flag=True, help="Enable it.")
        yield click.Option([*off, f"{name}_off"], is_flag=True, help="Disable it.")
    elif kind == FLAG:
        yield click.Option([*flags_of(parameter), name], is_flag=True, help=parameter.text)
    else:
        # A default of None would count as a given value in click.
        given = parameter.default is not None
        default: dict[str, Any] = {"default": parameter.default} if given else {}
        yield click.Option(
            [*flags_of(parameter), name],
            type=Typed(kind),
            required=parameter.required,
            show_default=given,
            multiple=parameter.many,
            help=parameter.text,
            **default,
        )


def _callback(command: Command) -> Callable[..., None]:
    def run(as_json: bool, **values: Any) -> None:
        session = click.get_current_context().obj
        for one in command.parameters:
            if one.kind == SWITCH:
                values[one.name] = _switched(one, values)
            if one.many:
                given = values[one.name]
                values[one.name] = (joined(given) if one.kind == PAIRS else list(given)) or None
        if command.endpoint.question and not values.pop("force"):
            click.confirm(command.endpoint.question, abort=True)
        as_json = as_json or session.as_json
        try:
            for line in _lines(command, session, values, as_json):
                click.echo(line)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None

    return run


def _switched(parameter: Parameter, values: Values) -> bool:
    name = parameter.name
    try:
        return switched(parameter, values.pop(f"{name}_on"), values.pop(f"{name}_off"))
    except Contradiction as error:
        raise click.UsageError(str(error)) from error


def _lines(command: Command, session: Session, values: Values, as_json: bool) -> Iterator[str]:
    """Yield the lines that the command prints, as they become available."""
    # Only here: a command line with a mistake, or one that asks for help, needs no HTTP.
    from magnetar.admin.client import AdminClient, NoAnswer, Refused  # noqa: PLC0415
    from magnetar.cli.admin.waiting import Waiting  # noqa: PLC0415

    try:
        with AdminClient(session.settings()) as client:
            with Waiting(sys.stderr):
                result = _result(command, client, values)
            yield from _shown(command, result, as_json)
    except (Contradiction, SettingsError) as error:
        raise click.UsageError(str(error)) from error
    except Refused as error:
        raise RefusedByBroker(f"{error} (HTTP {error.status})") from error
    except NoAnswer as error:
        raise Unreachable(str(error)) from error


def _result(command: Command, client: Any, values: Values) -> Any:
    endpoint, special = command.endpoint, command.special
    if special.fill is not None:
        special.fill(command, client, values)
    if special.run is not None:
        return special.run(command, client, values)
    answer = client.ask(
        endpoint.method,
        command.url(values),
        command.content(values),
        command.query(values),
        endpoint.media_type,
    )
    return (answer.text or None) if endpoint.as_text else answer.value


def _shown(command: Command, result: Any, as_json: bool) -> Iterator[str]:
    from magnetar.cli.admin.showing import lines_of  # noqa: PLC0415

    pieces = isinstance(result, Iterator)
    if as_json:
        value = list(result) if pieces else result
        if value is not None or command.endpoint.method == "GET":
            yield json.dumps(value, indent=2, ensure_ascii=False)
        return
    show = command.special.show or lines_of
    for value in result if pieces else (result,):
        yield from show(value)
