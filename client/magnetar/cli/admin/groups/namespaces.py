"""Special steps of `magnetar admin namespaces`."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from magnetar.cli.admin.declarations import Command, Contradiction, Special, Values

if TYPE_CHECKING:
    from magnetar.admin.client import AdminClient


def _new(command: Command, values: Values) -> object:
    found: dict[str, object] = {}
    if values["clusters"] is not None:
        found["replication_clusters"] = values["clusters"]
    if values["bundles"] is not None:
        found["bundles"] = {"numBundles": values["bundles"]}
    return found or None


def _where(command: Command, admin: object, values: Values) -> None:
    """Merge the two flags that name the bundle to split; Contradiction unless one is given."""
    given = [values["bundle"], values["bundle_type"]]
    if given.count(None) != 1:
        raise Contradiction("give either --bundle or --bundle-type")
    values["bundle"] = values["bundle"] or values["bundle_type"]


def _positions(command: Command, values: Values) -> object:
    if values["split_boundaries"] is None:
        return None
    try:
        return [int(text, 0) for text in values["split_boundaries"]]
    except ValueError:
        raise Contradiction(
            "--split-boundaries: expected hashes such as 0x40000000, separated by commas"
        ) from None


def _needs_bundle(command: Command, admin: object, values: Values) -> None:
    if values["destinationBroker"] is not None and values["bundle"] is None:
        raise Contradiction("--destinationBroker needs --bundle: one bundle is moved at a time")


def _clear(command: Command, admin: "AdminClient", values: Values) -> None:
    """Clear a backlog; subscription and bundle are parts of the path if they are given."""
    parts = [f"/admin/v2/namespaces/{values['namespace']}"]
    if values["bundle"] is not None:
        parts.append(quote(values["bundle"], safe=""))
    parts.append("clearBacklog")
    if values["sub"] is not None:
        parts.append(quote(values["sub"], safe=""))
    admin.post("/".join(parts))


SPECIALS = {
    "namespaces.create": Special(body=_new),
    "bundles.unload_namespace": Special(fill=_needs_bundle),
    "bundles.split": Special(body=_positions, fill=_where),
    "messages.backlogs.clear": Special(run=_clear),
}
