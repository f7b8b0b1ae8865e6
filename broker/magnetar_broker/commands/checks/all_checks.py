"""All checks of `magnetar doctor`, in order."""

from collections.abc import Iterator, Mapping

from magnetar_broker.commands.checks import (
    clock,
    configuration,
    data,
    disk,
    limits,
    ports,
    running,
    secrets,
    tls,
)
from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.commands.checks.holder import holder_of
from magnetar_broker.commands.rest import NO_LOGIN, Login


def examine(
    conf: str | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, str],
    admin_url: str | None,
    verifies: bool,
    login: Login = NO_LOGIN,
) -> list[Finding]:
    """Return the findings of all checks, in order; `verifies` checks data of any size."""
    return list(_examine(conf, environ, overrides, admin_url, verifies, login))


def _examine(
    conf: str | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, str],
    admin_url: str | None,
    verifies: bool,
    login: Login = NO_LOGIN,
) -> Iterator[Finding]:
    found, settings = configuration.check(conf, environ, overrides)
    yield from found
    if settings is None:
        return
    holder = holder_of(settings.data_dir)
    yield from ports.check(settings, holder)
    yield from tls.check(settings)
    yield from secrets.check(settings)
    yield from limits.check()
    yield from clock.check(settings.data_dir)
    yield from disk.check(settings)
    yield from data.check(settings.data_dir, holder, verifies)
    yield from running.check(settings.data_dir, holder, admin_url, login)
