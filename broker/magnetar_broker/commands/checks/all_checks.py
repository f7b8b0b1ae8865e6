"""All checks of `magnetar doctor`, in order."""

from collections.abc import Iterator, Mapping

from magnetar_broker.commands.asking import Ask
from magnetar_broker.commands.checks import (
    clock,
    configuration,
    data,
    disk,
    limits,
    offload,
    ports,
    running,
    secrets,
    tls,
)
from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.commands.checks.holder import holder_of


def examine(
    conf: str | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, str],
    admin_url: str | None,
    verifies: bool,
    ask: Ask,
) -> Iterator[Finding]:
    """Yield the findings of all checks, in order; `verifies` checks data of any size."""
    found, settings = configuration.check(conf, environ, overrides)
    yield from found
    if settings is None:
        return
    is_remote = settings.magnetar_segment_store is not None
    holder = None if is_remote else holder_of(settings.data_dir)
    yield from ports.check(settings, holder)
    yield from tls.check(settings)
    yield from secrets.check(settings)
    yield from limits.check()
    if is_remote:
        # Here: most brokers have a data directory, and do without the imports.
        from magnetar_broker.commands.checks import remote  # noqa: PLC0415

        yield from remote.check(settings)
    else:
        yield from clock.check(settings.data_dir)
        yield from disk.check(settings)
        yield from offload.check(settings)
        yield from data.check(settings.data_dir, holder, verifies)
    yield from running.check(settings.data_dir, holder, admin_url, ask)
