"""The `magnetar` command: the client's own commands, and what packages add as entry points."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

import click

from magnetar_proto.build import KIND

COMMANDS_GROUP = "magnetar.commands"
OWN_COMMANDS = {
    "admin": ("admin.commands", "Administer a broker, with the words of pulsar-admin."),
    "certs": ("setup.certs", "Make an authority for development, and certificates."),
    "completion": ("completion", "Print what makes a shell complete magnetar's commands."),
    "consume": ("tools.consume", "Receive, print and acknowledge messages."),
    "init": ("setup.init", "Write what a secure broker needs: keys, certificates, a conf file."),
    "perf": ("tools.perf.command", "Put load on a broker, and measure what it answers with."),
    "produce": ("tools.produce", "Send messages."),
    "read": ("tools.consume", "Print messages without a subscription."),
    "tokens": ("setup.tokens", "Make and check tokens (JWT) and their keys."),
}
"""The module of each command, and its help: listing the commands imports no module."""
OWN = {
    name: EntryPoint(name, f"magnetar.cli.{module}:{name}", COMMANDS_GROUP)
    for name, (module, _) in OWN_COMMANDS.items()
}


class Commands(click.Group):
    """Imports a command when it is used."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_registered())

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        # Skip the search for entry points, which takes as long as the rest of a start.
        entry_point = OWN.get(name) or _registered().get(name)
        return None if entry_point is None else _load(entry_point)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self._summary(name)) for name in self.list_commands(context)]
            )

    def _summary(self, name: str) -> str:
        if name in OWN_COMMANDS:
            return OWN_COMMANDS[name][1]
        return _load(_registered()[name]).get_short_help_str(limit=80)


@cache
def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=COMMANDS_GROUP)} | OWN


def _load(entry_point: EntryPoint) -> click.Command:
    """Import the command; if a module is missing, return one that names it."""
    try:
        command: click.Command = entry_point.load()
    except ModuleNotFoundError as error:
        return _unavailable(entry_point, str(error.name))
    if not getattr(command, "asks_broker", False):
        return command
    from magnetar.cli.options import asking  # noqa: PLC0415 (heavy)

    return asking(command)


def _unavailable(entry_point: EntryPoint, missing: str) -> click.Command:
    package = "magnetar" if entry_point.dist is None else entry_point.dist.name
    text = (
        f"`magnetar {entry_point.name}` needs the module {missing}, which is not installed: "
        f"install {package} again, with its dependencies"
    )

    @click.command(
        entry_point.name,
        help=text,
        short_help=f"Not usable: the module {missing} is not installed.",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1)
    def explain(arguments: tuple[str, ...]) -> None:
        raise click.ClickException(text)

    return explain


@click.group(cls=Commands)
@click.version_option(package_name="magnetar", message=f"%(prog)s, version %(version)s ({KIND})")
def main() -> None:
    """Magnetar: a message broker that speaks the Pulsar protocol, and its tools."""
