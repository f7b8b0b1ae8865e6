"""The running broker: whether it is ready and healthy, and its version."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import click

from magnetar_broker.base.version import VERSION
from magnetar_broker.commands.asking import Ask
from magnetar_broker.commands.checks import metrics
from magnetar_broker.commands.checks.finding import Finding, Level
from magnetar_broker.commands.checks.holder import Holder, why_unseen
from magnetar_broker.commands.checks.ports import holders_of, is_among, name_of
from magnetar_broker.server.data_directory.addresses import addresses_in

SUBJECT = "broker"
HEALTH_SECONDS = 60.0
PATH = "/admin/v2/brokers"


def check(
    data_dir: str, holder: Holder | None, admin_url: str | None, ask: Ask
) -> Iterator[Finding]:
    """Check the broker of `holder`, which has the data directory, or that at `admin_url`."""
    if admin_url is not None:
        yield from _ask(admin_url, ask, "warning" if holder is None else "error")
    elif holder is None:
        yield _none_runs(data_dir)
    elif holder.addresses is None:
        yield Finding(
            "warning", SUBJECT, f"{holder.name} holds {data_dir}, and has announced no address: it "
            "starts or stops, or is another command or an earlier release",
            "if it has just been started wait for its banner; for an earlier release name the "
            "address of its HTTP port (--admin-url)",
        )  # fmt: skip
    elif not (url := holder.addresses.admin_url):
        text = f"{holder.name} runs, and has no HTTP port: it cannot be asked for its health"
        yield Finding("note", SUBJECT, text)
    elif (other := _stranger(url, holder)) is not None:
        yield other
    else:
        yield from _ask(url, ask, "error")


def _none_runs(data_dir: str) -> Finding:
    if (why := why_unseen(data_dir)) is not None:
        remedy = "run doctor as the user of the broker"
        return Finding("warning", SUBJECT, f"whether one runs cannot be seen: {why}", remedy)
    text = f"none runs on {data_dir}: nothing holds its lock"
    if (last := addresses_in(data_dir)) is None:
        return Finding("note", SUBJECT, text)
    return Finding(
        "note", SUBJECT, f"{text}; the last one, process {last.process}, has ended without a stop",
        "start it: it recovers what was acknowledged",
    )  # fmt: skip


def _stranger(url: str, holder: Holder) -> Finding | None:
    """Return the finding that another process listens at the broker's address, if so."""
    where = urlsplit(url)
    users = holders_of(where.port or 0)
    if not users or is_among(holder.pid, users):
        return None
    who = ", ".join(f"process {pid} ({name_of(pid)})" for pid in users)
    return Finding(
        "error", SUBJECT, f"{holder.name} has announced {url}, but {who} listens there",
        "if the broker runs in a container, name the address of its HTTP port (--admin-url)",
    )  # fmt: skip


def _ask(admin_url: str, ask: Ask, unreached: Level) -> Iterator[Finding]:
    """Yield the findings about a broker's answers; of level `unreached` if there are none."""
    try:
        version: Any = ask(admin_url, f"{PATH}/version")
    except click.ClickException as error:
        yield Finding(
            unreached, SUBJECT, str(error),
            "if it was just started wait for its banner; else its log says what is wrong",
        )  # fmt: skip
        return
    if version != VERSION:
        yield Finding(
            "warning", SUBJECT, f"version {version} runs, and {VERSION} is installed",
            "restart it, to run what is installed",
        )  # fmt: skip
    try:
        ask(admin_url, f"{PATH}/health", timeout_s=HEALTH_SECONDS)
    except click.ClickException as error:
        yield Finding(
            "error", SUBJECT, f"the health check fails: {error}",
            "see its log; docs/monitoring.md explains the check",
        )  # fmt: skip
    else:
        yield Finding("ok", SUBJECT, f"version {version} at {admin_url} publishes and consumes")
    yield from metrics.check(admin_url, ask)
