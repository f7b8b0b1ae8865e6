"""Commands of `magnetar admin topics` about stored messages that the broker cannot read."""

from typing import TYPE_CHECKING, Any, Final

from magnetar.cli.admin.declarations import Command, Lines, Values, flag
from magnetar.cli.admin.groups.topic_policies import PATH, SUBJECT
from magnetar.cli.admin.showing import with_tables

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient

SCAN = flag("--scan", "Read all that is stored, instead of what is known.", query="scan")
COLUMNS: Final = ("topic", "ledgerId", "firstEntryId", "lastEntryId", "entries")
WHERE: Final = (*COLUMNS, "why", "file", "byte")
NONE: Final = "no damaged entries are known: with --scan all that is stored is read"


def _skip(admin: "AdminClient", values: Values) -> Any:
    """Set damaged entries aside, or with `dry_run` only name those that would be."""
    query = SKIP.query(values)
    if not values["dry_run"]:
        return admin.ask("POST", SKIP.url(values), query=query).value
    found = admin.ask("GET", DAMAGED.url(values), query=query).value
    return {"damaged": found["damaged"]}


def _shown(found: dict[str, Any]) -> Lines:
    if not any(found.values()):
        yield NONE
    aside = WHERE if any("why" in one for one in found.get("setAside", ())) else COLUMNS
    lines = with_tables(found, damaged=WHERE, setAside=aside)
    yield from (line for number, line in enumerate(lines) if number or line)


DAMAGED = Command(
    "damaged",
    "Show the entries that the broker cannot read, and those that were set aside.",
    "GET",
    f"{PATH}/damaged",
    (SUBJECT, SCAN),
    show=_shown,
)
SKIP = Command(
    "skip-damaged",
    "Set aside the entries that the broker cannot read, for all subscriptions and readers.",
    "POST",
    f"{PATH}/skipDamaged",
    (SUBJECT, SCAN, flag("--dry-run", "Only show them.")),
    run=_skip,
    show=_shown,
)
COMMANDS = (DAMAGED, SKIP)
