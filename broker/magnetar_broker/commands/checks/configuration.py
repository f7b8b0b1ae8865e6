"""The configuration: everything that the start would refuse or warn about."""

import os
from collections.abc import Mapping

from magnetar_broker.commands.checks.finding import Finding
from magnetar_broker.config import Settings
from magnetar_broker.config.exposure import refused_exposure
from magnetar_broker.config.load import ConfigError, load

SUBJECT = "configuration"


def check(
    conf: str | None, environ: Mapping[str, str], overrides: Mapping[str, str]
) -> tuple[list[Finding], Settings | None]:
    """The findings, and the settings; None if a broker would not start with them."""
    try:
        settings, warnings = load(conf, environ, overrides)
    except ConfigError as error:
        remedy = "correct this: a broker does not start; docs/configuration.md has every setting"
        return [Finding("error", SUBJECT, problem, remedy) for problem in error.problems], None
    if (why := refused_exposure(settings, os.uname().nodename)) is not None:
        return [
            Finding("error", SUBJECT, why, "a broker does not start: choose one of these")
        ], None
    if not warnings:
        source = conf or "no file: defaults, and the environment"
        return [Finding("ok", SUBJECT, f"every setting is known ({source})")], settings
    remedy = "change or remove it, unless it is intended"
    return [Finding("warning", SUBJECT, warning, remedy) for warning in warnings], settings
