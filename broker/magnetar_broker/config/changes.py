"""Settings that are changed while the broker runs, over those that it was started with."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from magnetar_broker.config.keys import COMPATIBLE, NOT_BUILT, UNSAFE
from magnetar_broker.config.load import ConfigError, contradictions
from magnetar_broker.config.settings import KEYS, Settings
from magnetar_broker.config.values import Key

DYNAMIC = "dynamic"
"""The origin of a value that was changed while the broker ran."""
FIELDS = {key.name: (field, key) for field, key in KEYS.items()}
"""Fields and keys of `Settings` by the names of the keys."""


def check_dynamic(name: str) -> Key:
    """The key with this name; `ConfigError` says why it cannot be changed at run time."""
    if name in FIELDS:
        key = FIELDS[name][1]
        if not key.dynamic:
            raise ConfigError(
                f"{name} is read at the start only: change it in the configuration, and restart"
            )
        return key
    for known in (UNSAFE, NOT_BUILT, COMPATIBLE):
        if name in known:
            raise ConfigError(f"{name} cannot be changed: it {_is(known[name].consequence)}")
    raise ConfigError(
        f"{name} is no setting: GET /admin/v2/brokers/configuration lists those that can be changed"
    )


def _is(consequence: str) -> str:
    return f"has no effect here ({consequence})"


def with_changes(settings: Settings, changed: Mapping[str, str]) -> Settings:
    """The settings with changed values, by key; `ConfigError` if one is not allowed."""
    values: dict[str, Any] = {}
    for name, text in changed.items():
        key = check_dynamic(name)
        try:
            values[FIELDS[name][0]] = key.kind.parse(text)
        except ValueError as error:
            unit = f" ({key.unit})" if key.unit else ""
            raise ConfigError(f"{name}={text}: expected {key.kind.allowed}{unit}") from error
    made = replace(
        settings,
        **values,
        origins={**settings.origins, **dict.fromkeys(values, DYNAMIC)},
    )
    wrong = [f"{name}={value}: {why}" for name, value, why in contradictions(made)]
    if wrong:
        raise ConfigError(*wrong)
    return made
