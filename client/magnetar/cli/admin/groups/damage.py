"""Commands of `magnetar admin topics` about stored messages that the broker cannot read."""

from typing import TYPE_CHECKING, Any, Final

from magnetar.cli.admin.declarations import Command, Lines, Special, Values, command_of
from magnetar.cli.admin.showing import with_tables

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

COLUMNS: Final = ("topic", "ledgerId", "firstEntryId", "lastEntryId", "entries")
WHERE: Final = (*COLUMNS, "why", "file", "byte")
NONE: Final = "no damaged entries are known: with --scan all that is stored is read"


def _skip(command: Command, admin: "AdminClient", values: Values) -> Any:
    """Set damaged entries aside, or with `dry_run` only name those that would be."""
    query = command.query(values)
    if not values["dry_run"]:
        return admin.ask("POST", command.url(values), query=query).value
    found = admin.ask("GET", command_of("messages.damage.damaged").url(values), query=query).value
    return {"damaged": found["damaged"]}


def _shown(found: dict[str, Any]) -> Lines:
    if not any(found.values()):
        yield NONE
    aside = WHERE if any("why" in one for one in found.get("setAside", ())) else COLUMNS
    lines = with_tables(found, damaged=WHERE, setAside=aside)
    yield from (line for number, line in enumerate(lines) if number or line)


SPECIALS = {
    "messages.damage.damaged": Special(show=_shown),
    "messages.damage.skip": Special(run=_skip, show=_shown),
}
