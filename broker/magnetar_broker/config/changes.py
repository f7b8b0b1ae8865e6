"""Settings changed while the broker runs, which take precedence over those of the start."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from magnetar_broker.config.keys import UNSUPPORTED, UnsupportedKey
from magnetar_broker.config.load import ConfigError, contradictions
from magnetar_broker.config.settings import KEYS, Settings
from magnetar_broker.config.values import Blank, Key, render

DYNAMIC = "dynamic"
"""The origin of a value that was changed while the broker ran."""
FIELDS = {key.name: (field, key) for field, key in KEYS.items()}
"""Fields and keys of `Settings` by the names of the keys."""


class Given(NamedTuple):
    """The value of a setting as a configuration contains it."""

    text: str
    source: str
    """The place that set the value; blank for the default."""

    @property
    def shown(self) -> str:
        """The text that people may read."""
        return self.text or "blank"


def given(settings: Settings, field: str) -> Given:
    """Return the value of a field."""
    return Given(render(getattr(settings, field)), settings.origins.get(field, ""))


def with_reloaded(settings: Settings, values: Mapping[str, Given]) -> Settings:
    """Return the settings with the allowed values as if the broker had started with them."""
    fields: dict[str, Any] = {}
    origins = dict(settings.origins)
    for name, (text, source) in values.items():
        field, key = FIELDS[name]
        if text:
            fields[field] = key.kind.parse(text)
        else:
            fields[field] = None if key.blank is Blank.NONE else getattr(Settings, field)
        origins.pop(field, None)
        if source:
            origins[field] = source
    return replace(settings, **fields, origins=origins)


def names_of_dynamic() -> list[str]:
    """Return the keys that can be changed at run time, sorted; some have no effect here."""
    known: list[Key | UnsupportedKey] = [
        *(key for _, key in FIELDS.values()),
        *UNSUPPORTED.values(),
    ]
    return sorted(key.name for key in known if key.dynamic)


def check_dynamic(name: str) -> Key | UnsupportedKey:
    """Return the key with this name; `ConfigError` says why it cannot be changed at run time."""
    if name in FIELDS:
        key = FIELDS[name][1]
        if not key.dynamic:
            raise ConfigError(
                f"{name} is read at the start only: change it in the configuration, and restart"
            )
        return key
    known = UNSUPPORTED.get(name)
    if known is None:
        raise ConfigError(
            f"{name} is not a setting: GET /admin/v2/brokers/configuration lists those that can be "
            "changed"
        )
    if not known.dynamic:
        raise ConfigError(f"{name} cannot be changed: it has no effect here ({known.consequence})")
    return known


def without_effect(name: str, text: str) -> str | None:
    """Return the reason why a change has no effect; None if it has one, or is Pulsar's default."""
    known = UNSUPPORTED.get(name)
    return None if known is None or known.is_quiet(text) else known.consequence


def allowed_changes(
    settings: Settings, changed: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the changes that are allowed together, by key, and the reason against each other one.

    Earlier changes may contradict settings that the broker has been started with since.
    """
    left, problems = dict(changed), list[str]()
    for name, text in changed.items():
        try:
            _parsed(name, text)
        except ConfigError as error:
            problems.append(str(error))
            del left[name]
    while left and (problem := _contradiction(settings, left)) is not None:
        problems.append(problem)
        others = [{key: text for key, text in left.items() if key != name} for name in left]
        left = next((one for one in others if _contradiction(settings, one) is None), others[-1])
    return left, problems


def _contradiction(settings: Settings, changed: Mapping[str, str]) -> str | None:
    try:
        with_changes(settings, changed)
    except ConfigError as error:
        return str(error)
    return None


def _parsed(name: str, text: str) -> Any:
    key = check_dynamic(name)
    if isinstance(key, UnsupportedKey):
        return text
    try:
        return key.kind.parse(text)
    except ValueError as error:
        unit = f" ({key.unit})" if key.unit else ""
        raise ConfigError(f"{name}={text}: expected {key.kind.allowed}{unit}") from error


def with_changes(settings: Settings, changed: Mapping[str, str]) -> Settings:
    """Return the settings with changed values, by key; `ConfigError` if one is not allowed."""
    parsed = {name: _parsed(name, text) for name, text in changed.items()}
    values = {FIELDS[name][0]: value for name, value in parsed.items() if name in FIELDS}
    made = replace(
        settings,
        **values,
        origins={**settings.origins, **dict.fromkeys(values, DYNAMIC)},
    )
    wrong = [f"{name}={value}: {why}" for name, value, why in contradictions(made)]
    if wrong:
        raise ConfigError(*wrong)
    return made
