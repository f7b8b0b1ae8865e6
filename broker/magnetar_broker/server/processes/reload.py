"""Reads the configuration of a running broker again."""

import logging
from collections.abc import Callable

from magnetar_broker.config import Settings
from magnetar_broker.config.changes import Given, given
from magnetar_broker.config.load import ConfigError, Loaded
from magnetar_broker.config.settings import KEYS

logger = logging.getLogger(__name__)

Read = Callable[[], Loaded]
"""A function that reads the configuration; raises `ConfigError`."""


def reloaded(read: Read, settings: Settings) -> dict[str, Given] | None:
    """Return the changes of a reload to `settings`, by key; None if the configuration is invalid.

    Logs the settings that change, those that need a restart of the broker to change, and the reason
    why a configuration cannot be used.
    """
    try:
        loaded = read()
    except ConfigError as error:
        logger.error("reload: the configuration cannot be used, and nothing changes: %s", error)
        return None
    for warning in loaded.warnings:
        logger.warning("%s", warning)
    values = {}
    for field, key in KEYS.items():
        before, after = given(settings, field), given(loaded.settings, field)
        if before.text == after.text:
            continue
        # promise[always]: a reload changes only what can change while the broker runs
        if key.reloads:
            values[key.name] = after
        logger.log(
            logging.INFO if key.reloads else logging.WARNING,
            "reload: %s is %s, and %s %s",
            key.name,
            key.shown(before.shown),
            "becomes" if key.reloads else "needs a restart of the broker to become",
            key.shown(after.shown),
        )
    return values
