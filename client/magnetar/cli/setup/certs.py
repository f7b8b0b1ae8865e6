"""The command `magnetar certs`."""

from pathlib import Path
from typing import Final

import click

from magnetar.cli.setup.cert_files import AUTHORITY, SERVER, CertFiles
from magnetar.cli.setup.files import FileProblem

DAYS: Final = 397


@click.command()
@click.argument("directory", default="certs")
@click.option("--host", "hosts", multiple=True, metavar="HOST",
              help="A name or an address of the broker, besides localhost and this machine's "
              "name; may be repeated.")  # fmt: skip
@click.option("--client", "roles", multiple=True, metavar="ROLE",
              help="Make a certificate for clients of this role; may be repeated.")  # fmt: skip
@click.option("--days", default=DAYS, type=click.IntRange(1, 3650), show_default=True,
              help="How long the certificates of broker and clients are valid.")  # fmt: skip
@click.option("--renew", is_flag=True, help="Replace the broker's certificate; with its hosts "
              "and those of --host.")  # fmt: skip
def certs(
    directory: str, hosts: tuple[str, ...], roles: tuple[str, ...], days: int, renew: bool
) -> None:
    """Make an authority for development in DIRECTORY, and certificates of broker and clients.

    A second call adds certificates of clients (--client), or replaces that of the broker
    (--renew).  Nothing else is overwritten.  Keys are readable for their owner only.
    """
    files = CertFiles(Path(directory))
    try:
        if renew:
            files.renew(hosts, days)
        elif not (roles and files.has_authority):
            files.create(hosts, days)
        elif hosts:
            raise click.UsageError("--host goes with a new authority, or with --renew")
        for role in roles:
            files.add_client(role, days)
    except FileProblem as error:
        raise click.ClickException(str(error)) from None
    click.echo("\n".join(_use(files, roles)))


def _use(files: CertFiles, roles: tuple[str, ...]) -> list[str]:
    """Describe the use of the files that were created."""
    trust = files.cert(AUTHORITY).resolve()
    lines = [
        f"authority  {trust}",
        f"           {files.key(AUTHORITY).resolve()} (signs: keep it, and give it to nobody)",
        f"broker     {files.cert(SERVER).resolve()}",
        f"           {files.key(SERVER).resolve()}",
    ]
    for role in roles:
        lines += [
            f"client     {files.cert(role).resolve()}",
            f"           {files.key(role).resolve()}",
        ]
    return [
        *lines,
        "",
        "In the broker's configuration:",
        f"  tlsCertificateFilePath={files.cert(SERVER).resolve()}",
        f"  tlsKeyFilePath={files.key(SERVER).resolve()}",
        f"  tlsTrustCertsFilePath={trust}",
        "  brokerServicePortTls=6651",
        "  webServicePortTls=8443",
        "Clients trust the authority:",
        f"  magnetar admin --admin-url https://localhost:8443 --tls-trust-cert-path {trust} ...",
    ]
