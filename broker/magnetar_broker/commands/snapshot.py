"""The command `magnetar snapshot`."""

import json
import time
from typing import Any
from urllib.parse import quote

import click

from magnetar_broker.commands.asking import Ask, AskingCommand
from magnetar_storage.errors import StorageError

PATH = "/admin/v2/brokers/snapshots"
POLL_SECONDS = 0.2


@click.command(cls=AskingCommand)
@click.argument("name", required=False)
@click.option("--list", "lists", is_flag=True, help="Show the complete snapshots instead.")
@click.option("--verify", is_flag=True, help="Check every record of the snapshot at the end.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def snapshot(
    name: str | None,
    admin_url: str | None,
    ask: Ask,
    lists: bool,
    verify: bool,
    as_json: bool,
) -> None:
    """Copy the data of a running broker, as it is at one moment, to a directory on its machine.

    Everything that was acknowledged before the request is in the snapshot NAME (default: the
    time).  Its path is printed when it is complete and on disk.  Exits with 0 then, and with 1
    if it could not be made or, with --verify, is damaged.
    """
    if lists:
        _show_all(ask(admin_url, PATH), as_json)
        return
    made = _make(ask, admin_url, name or time.strftime("%Y%m%d-%H%M%S"))
    if made["status"] != "SUCCESS":
        raise click.ClickException(f"the snapshot was not made: {made.get('error', made)}")
    click.echo(json.dumps(made) if as_json else _line(made))
    if verify:
        _verify(made["path"], as_json)


def _verify(path: str, as_json: bool) -> None:
    from magnetar_broker import verify  # noqa: PLC0415 (heavy; not for --help)

    try:
        report = verify.check(path, with_progress=not as_json)
    except (StorageError, OSError) as error:
        raise click.ClickException(f"cannot check {path}: {error}") from error
    click.echo(verify.as_json(report) if as_json else verify.as_text(report))
    if report.damaged:
        raise SystemExit(1)


def _make(ask: Ask, admin_url: str | None, name: str) -> dict[str, Any]:
    path = f"{PATH}/{quote(name, safe='')}"
    state: dict[str, Any] = ask(admin_url, path, "POST")
    while state["status"] == "RUNNING":
        time.sleep(POLL_SECONDS)
        state = ask(admin_url, path)
    return state


def _line(one: dict[str, Any]) -> str:
    return (
        f"{one['path']}: {one['files']} segments, {one['bytes'] / 1e6:.1f} MB, "
        f"{one['copied_bytes'] / 1e6:.1f} MB of them copied"
    )


def _show_all(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found))
        return
    for one in found:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["created_ms"] / 1000))
        click.echo(f"{moment}  {_line(one)}")
