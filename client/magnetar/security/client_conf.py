"""Pulsar's configuration file `client.conf`: the address of a broker, and credentials."""

import os
from pathlib import Path
from typing import Final

CONF_VARIABLE: Final = "PULSAR_CLIENT_CONF"


class SettingsError(ValueError):
    """A setting that cannot be used; the message says what to use instead."""


def read_conf(path: str | None) -> dict[str, str]:
    """Return the lines `key=value` of a file; without a path, the environment names the file."""
    path = path or os.environ.get(CONF_VARIABLE)
    if not path:
        return {}
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8") from None
    found = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith(("#", "!")):
            found[key.strip()] = value.strip()
    return found


def flag_of(conf: dict[str, str], key: str, given: bool | None, default: bool) -> bool:
    """Return the flag of the command line; else the value of the file, else the default."""
    return given if given is not None else conf.get(key, str(default)).lower() == "true"
