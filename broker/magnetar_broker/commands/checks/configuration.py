"""The configuration: everything that a start would refuse or warn about."""

import os
from collections.abc import Mapping

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Settings
from magnetar_broker.config.exposure import refused_exposure
from magnetar_broker.config.load import ConfigError, load
from magnetar_broker.server.clients.authentication import authenticator_of

SUBJECT = "configuration"
CORRECT = "correct this: a broker does not start; docs/configuration.md has every setting"


def check(
    conf: str | None, environ: Mapping[str, str], overrides: Mapping[str, str]
) -> tuple[list[Finding], Settings | None]:
    """Return the findings, and the settings; None in place of settings that are refused."""
    try:
        settings, warnings = load(conf, environ, overrides)
    except ConfigError as error:
        return [Finding("error", SUBJECT, problem, CORRECT) for problem in error.problems], None
    if (why := refused_exposure(settings, os.uname().nodename)) is not None:
        return [
            Finding("error", SUBJECT, why, "a broker does not start: choose one of these")
        ], None
    unusable = _unusable(settings)
    if unusable:
        return unusable, settings
    if not warnings:
        source = conf or "no file: defaults, and the environment"
        return [Finding("ok", SUBJECT, f"every setting is known ({source})")], settings
    remedy = "change or remove it, unless it is intended"
    return [Finding("warning", SUBJECT, warning, remedy) for warning in warnings], settings


def _unusable(settings: Settings) -> list[Finding]:
    """Return a finding for each key and file of authentication that cannot be used."""
    try:
        authenticator_of(settings)
    except ConfigError as error:
        return [Finding("error", SUBJECT, problem, CORRECT) for problem in error.problems]
    return []
