"""What `.option(...)` accepts. Names are case-insensitive, and unknown ones are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from magnetar.settings import parse_service_url
from magnetar_proto.names import TopicName

SERVICE_URL = "service.url"
TOPIC = "topic"
STARTING_OFFSETS = "startingOffsets"
STARTS = ("earliest", "latest")

# Spark adds these to a sink's options by itself.
OF_SPARK = ("checkpointLocation", "queryName")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Where to read, and where to begin when a query is new."""

    service_url: str
    topic: str
    start: str

    @classmethod
    def parse(cls, options: Mapping[str, str], default_start: str) -> Self:
        """ValueError names the option that is missing, unknown or wrong."""
        given = _known(options, (SERVICE_URL, TOPIC, STARTING_OFFSETS))
        start = given.get(STARTING_OFFSETS, default_start).lower()
        if start not in STARTS:
            raise ValueError(f"option {STARTING_OFFSETS}: {start!r} is not earliest or latest")
        return cls(*_place(given), start)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write."""

    service_url: str
    topic: str

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """ValueError names the option that is missing, unknown or wrong."""
        return cls(*_place(_known(options, (SERVICE_URL, TOPIC))))


def _known(options: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The options under their proper names; Spark hands them over in lower case."""
    proper = {name.lower(): name for name in names}
    of_spark = {name.lower() for name in OF_SPARK}
    known: dict[str, str] = {}
    for name, value in options.items():
        if name.lower() in proper:
            known[proper[name.lower()]] = value
        elif name.lower() not in of_spark:
            raise ValueError(f"option {name!r} is unknown; known are {', '.join(names)}")
    return known


def _place(given: Mapping[str, str]) -> tuple[str, str]:
    for name in (SERVICE_URL, TOPIC):
        if not given.get(name):
            raise ValueError(f"option {name!r} is missing")
    parse_service_url(given[SERVICE_URL])
    return given[SERVICE_URL], str(TopicName.parse(given[TOPIC]))
