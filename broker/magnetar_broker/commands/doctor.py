"""The command `magnetar doctor`: what keeps a broker from working well, with remedies."""

import json
import os
from dataclasses import asdict

import click
from click.core import ParameterSource

from magnetar_broker.commands.asking import Ask, AskingCommand

SIGNS = {"ok": "ok  ", "note": "note", "warning": "WARN", "error": "FAIL"}


@click.command(cls=AskingCommand)
@click.option("--conf", metavar="FILE", help="The broker's configuration file.")
@click.option("--data-dir", metavar="DIR", help="The data directory. Default: as configured.")
@click.option("--verify", is_flag=True, help="Check every record of the data, however much it is.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(
    conf: str | None,
    data_dir: str | None,
    admin_url: str | None,
    ask: Ask,
    verify: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Check configuration, ports, disk, limits, clock, data, and a running broker.

    The running broker is the one that holds the lock of the data directory, unless --admin-url
    names another on the command line; the environment does not.

    Run it as the user of the broker, with its configuration.  Nothing is changed; for a moment a
    file of 16 MB is written to the data directory, and a small object to the store of objects that
    ledgers are offloaded to.  Exits with 0 if nothing is wrong, and with 1 if something is;
    warnings count with --strict.
    """
    from magnetar_broker.commands.checks.all_checks import examine  # noqa: PLC0415 (heavy)

    source = click.get_current_context().get_parameter_source("admin_url")
    # promise[never]: a variable for other commands has doctor ask no other broker
    if source is ParameterSource.ENVIRONMENT:
        admin_url = None
    overrides = {} if data_dir is None else {"magnetarDataDirectory": data_dir}
    findings = list(examine(conf, os.environ, overrides, admin_url, verify, ask))
    worst = {finding.level for finding in findings}
    if as_json:
        click.echo(
            json.dumps(
                {"ok": "error" not in worst, "findings": [asdict(finding) for finding in findings]}
            )
        )
    else:
        for finding in findings:
            click.echo(f"{SIGNS[finding.level]}  {finding.subject}: {finding.text}")
            if finding.remedy:
                click.echo(f"      {' ' * len(finding.subject)}  -> {finding.remedy}")
    raise SystemExit(int("error" in worst or (strict and "warning" in worst)))
