"""Kinds of parameters: the placeholder in a usage line, and the type in JSON."""

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of parameter; the command line parses its text by the name of the kind."""

    name: str
    metavar: str
    json: str = "string"
    """The type in JSON Schema."""
    choices: tuple[str, ...] = ()
    """The values that are accepted; if empty, all."""


def one_of(*choices: str) -> Kind:
    """Return the kind of a parameter that is one of these words."""
    return Kind("ONE_OF", "|".join(choices), choices=choices)


def some_of(*choices: str) -> Kind:
    """Return the kind of a parameter that is some of these words, separated by commas."""
    return Kind("SOME_OF", "NAME,NAME", choices=choices)


FLAG = Kind("FLAG", "", "boolean")
SWITCH = Kind("SWITCH", "", "boolean")
TEXT = Kind("TEXT", "TEXT")
NUMBER = Kind("NUMBER", "N", "integer")
RATE = Kind("RATE", "RATE", "number")
SIZE = Kind("SIZE", "SIZE", "integer")
SECONDS = Kind("SECONDS", "TIME", "integer")
MILLISECONDS = Kind("MILLISECONDS", "TIME", "integer")
MINUTES = Kind("MINUTES", "TIME", "integer")
MEGABYTES = Kind("MEGABYTES", "SIZE", "integer")
MINUTES_OF_SECONDS = Kind("MINUTES_OF_SECONDS", "TIME", "integer")
"""A time for the broker in whole minutes; a number without a suffix is in seconds."""
NAMES = Kind("NAMES", "NAME,NAME")
CSV = Kind("CSV", "NAME,NAME")
"""Names that are sent as one text, separated by commas."""
PAIRS = Kind("PAIRS", "NAME=VALUE", "object")
POSITION = Kind("POSITION", "earliest|latest|LEDGER:ENTRY", "object")
MOMENT = Kind("MOMENT", "ISO-TIME", "integer")
SCHEMA_FILE = Kind("SCHEMA_FILE", "FILE", "object")
MODE = Kind(
    "MODE", "persistent|non_persistent|all", choices=("PERSISTENT", "NON_PERSISTENT", "ALL")
)
TOPIC = Kind("TOPIC", "TOPIC")
NAMESPACE = Kind("NAMESPACE", "TENANT/NAMESPACE")
