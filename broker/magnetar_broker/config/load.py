"""Reads settings from a file, the environment and the command line; later ones win.

The later one wins: defaults, file, environment (`PULSAR_PREFIX_<key>`), command line.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from magnetar_broker.config import properties
from magnetar_broker.config.authentication import contradictory_authentication
from magnetar_broker.config.keys import COMPATIBLE, NOT_BUILT, UNSAFE
from magnetar_broker.config.listeners import problem_of, problem_of_internal
from magnetar_broker.config.offload_places import contradictory_offload
from magnetar_broker.config.port_rules import (
    contradictory_ports,
    contradictory_tls,
    doubtful_tls,
)
from magnetar_broker.config.remote_data import contradictory_remote_data, doubtful_remote_data
from magnetar_broker.config.settings import KEYS, Settings
from magnetar_broker.config.values import Blank, Key, render

ENVIRONMENT_PREFIX = "PULSAR_PREFIX_"

_FIELDS = {key.name: (name, key) for name, key in KEYS.items()}
_KNOWN = {*_FIELDS, *UNSAFE, *NOT_BUILT, *COMPATIBLE}
_JOINTS = str.maketrans("", "", "_-.")
_SIMILARITY = 0.75
"""The similarity above which an unknown key counts as a misspelt known one."""


class ConfigError(Exception):
    """The configuration cannot be used.

    `problems` has a line for every cause, not only the first: where, key, value, and what
    is allowed.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Loaded(NamedTuple):
    """The settings, and the warnings about them that the start logs."""

    settings: Settings
    warnings: list[str]


class Assignment(NamedTuple):
    """A key set to a value; `where` names the place (file and line) for messages."""

    where: str
    key: str
    value: str

    def refused(self, why: str) -> str:
        key = _FIELDS.get(self.key)
        shown = self.value if key is None else key[1].shown(self.value)
        return f"{self.where}: {self.key}={shown}: {why}"


def load(path: str | None, environ: Mapping[str, str], overrides: Mapping[str, str]) -> Loaded:
    """Return settings from the file (if any), the environment and the command line's overrides.

    Keys are Pulsar's or our own.  Raises `ConfigError` with all problems at once.
    """
    return interpret(path, _read(path) if path is not None else "", environ, overrides)


def interpret(
    path: str | None, text: str, environ: Mapping[str, str], overrides: Mapping[str, str]
) -> Loaded:
    """Return the result of `load` for the file's text; `path` is for messages."""
    lines: list[Assignment] = []
    problems: list[str] = []
    for one in properties.parse(text):
        if one.is_assigned or (one.value and one.key in _KNOWN):
            lines.append(Assignment(f"{path}:{one.line}", one.key, one.value))
        else:  # the line is not shown: it may be a part of a key
            problems.append(
                f"{path}:{one.line}: not a setting: expected key=value, or a comment (#)"
            )
    assignments = [*lines, *_from_environment(environ), *_from_command_line(overrides)]
    chosen = {assignment.key: assignment for assignment in assignments}
    reading = _Reading(chosen, problems=problems)
    for assignment in chosen.values():
        reading.take(assignment)
    settings = reading.settings()
    return Loaded(
        settings,
        [
            *_repeated(path, lines),
            *_misnamed(environ),
            *reading.warnings(),
            *_doubtful(settings),
        ],
    )


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8") from error


def _from_environment(environ: Mapping[str, str]) -> Iterator[Assignment]:
    """Yield prefixed variables only: a plain name can belong to another program."""
    for variable, value in sorted(environ.items()):
        if variable.startswith(ENVIRONMENT_PREFIX):
            key = variable.removeprefix(ENVIRONMENT_PREFIX)
            yield Assignment(f"environment variable {variable}", key, value.strip())


def _misnamed(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield variables that end in a setting's key, and lack the prefix."""
    for variable in sorted(environ):
        key = variable.rpartition("_")[2]
        if key in {*_FIELDS, *UNSAFE} and not variable.startswith(ENVIRONMENT_PREFIX):
            yield (
                f"environment variable {variable} has no effect: did you mean "
                f"{ENVIRONMENT_PREFIX}{key}?"
            )


def _from_command_line(overrides: Mapping[str, str]) -> Iterator[Assignment]:
    for key, value in overrides.items():
        yield Assignment("command line", key, value.strip())


@dataclass
class _Reading:
    """Collects the values and problems of the assignments in effect."""

    chosen: Mapping[str, Assignment]
    values: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    without_effect: list[str] = field(default_factory=list)
    unknown: list[Assignment] = field(default_factory=list)

    def take(self, assignment: Assignment) -> None:
        """Parse the final value of one key; note it, or why it is refused or has no effect."""
        where, key, value = assignment
        if key in _FIELDS:
            self._honour(assignment, *_FIELDS[key])
        elif key in UNSAFE:
            if not UNSAFE[key].is_quiet(value):
                self.problems.append(assignment.refused(UNSAFE[key].consequence))
        elif key in NOT_BUILT:
            if not NOT_BUILT[key].is_quiet(value):
                self.missing.append(f"{where}: {key} is {NOT_BUILT[key].consequence}")
        elif key in COMPATIBLE:
            if not COMPATIBLE[key].is_quiet(value):
                self.without_effect.append(key)
        elif not key:
            self.problems.append(assignment.refused("a key is missing"))
        else:
            self.unknown.append(assignment)

    def _honour(self, assignment: Assignment, name: str, key: Key) -> None:
        if not assignment.value:
            self._leave_blank(assignment, name, key)
            return
        try:
            self.values[name] = key.kind.parse(assignment.value)
        except ValueError:
            unit = f" ({key.unit})" if key.unit else ""
            self.problems.append(assignment.refused(f"expected {key.kind.allowed}{unit}"))

    def _leave_blank(self, assignment: Assignment, name: str, key: Key) -> None:
        match key.blank:
            case Blank.NONE:
                self.values[name] = None
            case Blank.REFUSED:
                why = f"must not be blank: expected {key.kind.allowed}"
                self.problems.append(assignment.refused(why))
            case Blank.DEFAULT:
                pass

    def settings(self) -> Settings:
        """Return the settings; `ConfigError` if anything was wrong, alone or together."""
        if self.problems:
            raise ConfigError(*self.problems)
        origins = {
            name: assignment.where
            for key, assignment in self.chosen.items()
            if assignment.value and (name := _FIELDS[key][0] if key in _FIELDS else "")
        }
        settings = Settings(**self.values, origins=origins)
        found = [
            self.chosen.get(key, Assignment("default", key, value)).refused(why)
            for key, value, why in contradictions(settings)
        ]
        if found:
            raise ConfigError(*found)
        return settings

    def warnings(self) -> Iterator[str]:
        yield from self.missing
        if self.without_effect:
            keys = ", ".join(sorted(self.without_effect))
            yield f"known to Pulsar and without effect here: {keys}"
        if self.unknown:
            yield f"unknown, and ignored: {', '.join(map(_with_guess, self.unknown))}"


def _with_guess(unknown: Assignment) -> str:
    """Return an unknown key with its place, and with the known key that was probably meant."""
    from difflib import get_close_matches  # noqa: PLC0415 (rarely needed)

    known = {_plain(key): key for key in sorted(_KNOWN)}
    guesses = get_close_matches(_plain(unknown.key), known, n=1, cutoff=_SIMILARITY)
    guess = f"; did you mean {known[guesses[0]]}?" if guesses else ""
    return f"{unknown.key} ({unknown.where}{guess})"


def _plain(key: str) -> str:
    """Return a key in lower case and without separators, so that spellings can be compared."""
    return key.lower().translate(_JOINTS)


def _repeated(path: str | None, lines: Iterable[Assignment]) -> Iterator[str]:
    where = defaultdict[str, list[str]](list)
    for assignment in lines:
        where[assignment.key].append(assignment.where.rpartition(":")[2])
    repeated = {key: numbers for key, numbers in where.items() if len(numbers) > 1}
    if repeated:
        keys = ", ".join(f"{key} (lines {', '.join(lines)})" for key, lines in repeated.items())
        yield f"{path}: {len(repeated)} set more than once, and the last line counts: {keys}"


def contradictions(settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield keys whose values are right alone and wrong together, with value and reason."""
    yield from contradictory_ports(settings)
    yield from contradictory_tls(settings)
    yield from _contradictory_listeners(settings)
    yield from contradictory_authentication(settings)
    yield from contradictory_offload(settings)
    yield from contradictory_remote_data(settings)
    if settings.authorization_enabled and not settings.authentication_enabled:
        why = "nobody has a role without authenticationEnabled=true: set that, too"
        yield "authorizationEnabled", "true", why
    low = settings.managed_ledger_min_ledger_rollover_time_minutes
    high = settings.managed_ledger_max_ledger_rollover_time_minutes
    if high < low:
        why = f"expected at least managedLedgerMinLedgerRolloverTimeMinutes, {low}"
        yield "managedLedgerMaxLedgerRolloverTimeMinutes", str(high), why
    partitions, most = (
        settings.default_num_partitions,
        settings.max_num_partitions_per_partitioned_topic,
    )
    if most and partitions > most:
        why = f"expected at most maxNumPartitionsPerPartitionedTopic, {most}"
        yield "defaultNumPartitions", str(partitions), why


def _contradictory_listeners(settings: Settings) -> Iterator[tuple[str, str, str]]:
    entries, internal = settings.advertised_listeners, settings.internal_listener_name
    if (why := problem_of(entries)) is not None:
        yield "advertisedListeners", render(entries), why
    elif (entries or internal) and (why := problem_of_internal(entries, internal)) is not None:
        yield "internalListenerName", internal or "", why


def _doubtful(settings: Settings) -> Iterator[str]:
    """Yield warnings of values that are allowed but probably not intended."""
    if not (settings.binds_to_loopback or settings.authentication_enabled):
        yield (
            f"bindAddress={settings.bind_address}: anyone who can connect to this machine can read "
            "and write everything, because authenticationEnabled=false"
        )
    yield from doubtful_tls(settings)
    yield from doubtful_remote_data(settings)
    if settings.advertised_address is not None and settings.advertised_listeners:
        yield (
            f"advertisedAddress={settings.advertised_address} has no effect: clients get the "
            "addresses in advertisedListeners; remove one of the two"
        )
    time, size = settings.default_retention_time_in_minutes, settings.default_retention_size_in_mb
    if (time == 0) != (size == 0):
        yield (
            f"defaultRetentionTimeInMinutes={time} and defaultRetentionSizeInMB={size}: nothing "
            "is retained, because both must be set"
        )
