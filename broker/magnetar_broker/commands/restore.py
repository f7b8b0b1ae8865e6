"""The command `magnetar restore`."""

import os

import click

from magnetar_storage.errors import StorageError

CANNOT = 2
"""The exit code if nothing could be done; it is 1 if the snapshot is damaged."""


@click.command()
@click.argument("snapshot")
@click.argument("data_dir")
@click.option("--no-verify", is_flag=True, help="Do not check every record of the snapshot first.")
@click.option(
    "--replaces-original",
    is_flag=True,
    help="The broker that made the snapshot never runs again: delete its objects of ledgers, too.",
)
def restore(snapshot: str, data_dir: str, no_verify: bool, replaces_original: bool) -> None:
    """Copy SNAPSHOT to DATA_DIR, a new or empty directory, for a broker to be started on it.

    The snapshot is checked first, and not changed.  Exits with 0 when everything is on disk, with
    1 if the snapshot is damaged, and with 2 if it cannot be restored; nothing was copied then.
    """
    from magnetar_broker.server.data_directory.snapshots.restoring import restored  # noqa: PLC0415
    from magnetar_broker.verify import as_text, check  # noqa: PLC0415 (heavy; not for --help)

    try:
        if not no_verify and os.path.isdir(snapshot):
            report = check(snapshot, with_progress=True)
            if report.damaged:
                click.echo(as_text(report), err=True)
                click.echo(
                    f"{snapshot} is damaged, and nothing was restored: use another snapshot, or "
                    "--no-verify to restore what can be read",
                    err=True,
                )
                raise SystemExit(1)
        files, size = restored(snapshot, data_dir, replaces_original)
    except (StorageError, OSError) as error:
        click.echo(f"cannot restore {snapshot}: {error}", err=True)
        raise SystemExit(CANNOT) from error
    click.echo(
        f"{files} files, {size / 1e6:.1f} MB restored: magnetar standalone --data-dir {data_dir}"
    )
