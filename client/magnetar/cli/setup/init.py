"""The command `magnetar init`."""

from pathlib import Path

import click

from magnetar.cli.setup.cert_files import HOST
from magnetar.cli.setup.files import FileProblem
from magnetar.cli.setup.how_to import how_to
from magnetar.cli.setup.secure_directory import Address, SecureDirectory


@click.command()
@click.argument("directory", default="magnetar-secure")
@click.option("--secure", is_flag=True, help="With TLS, authentication and authorization.")
@click.option("--host", metavar="HOST", help="The name or address by which other machines reach "
              "the broker.  Default: only this machine does.")  # fmt: skip
@click.option("--port", default=6651, type=click.IntRange(1, 65535), show_default=True,
              help="Port for clients, with TLS.")  # fmt: skip
@click.option("--http-port", default=8443, type=click.IntRange(1, 65535), show_default=True,
              help="Port for HTTPS.")  # fmt: skip
def init(directory: str, secure: bool, host: str | None, port: int, http_port: int) -> None:
    """Write keys, certificates, tokens and configurations of a secure broker to DIRECTORY.

    It prints how the broker is started, and how clients connect.  DIRECTORY must be empty, or
    not exist.
    """
    if not secure:
        raise click.UsageError(
            "only --secure is prepared; a broker for this machine alone needs no preparation: "
            "magnetar standalone"
        )
    if host is not None and not HOST.fullmatch(host):
        raise click.BadParameter(f"{host!r} is neither a name nor an address", param_hint="--host")
    made = SecureDirectory(Path(directory), Address(host, port, http_port))
    try:
        made.create()
    except FileProblem as error:
        raise click.ClickException(str(error)) from None
    click.echo(how_to(made))
