"""Special steps of `magnetar admin schemas`."""

from typing import TYPE_CHECKING, Any

from magnetar.cli.admin.declarations import Command, Contradiction, Special, Values, command_of

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient


def _get(command: Command, admin: "AdminClient", values: Values) -> Any:
    if values["all_version"] and values["version"] is not None:
        raise Contradiction("give --version or --all-version, not both")
    if values["all_version"]:
        return admin.get(command_of("schemas.versions").url(values))["getSchemaResponses"]
    path = command.url(values)
    return admin.get(path if values["version"] is None else f"{path}/{values['version']}")


SPECIALS = {"schemas.latest": Special(run=_get)}
