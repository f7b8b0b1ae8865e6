"""The options of the source, as its parts use them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from magnetar_proto.names import TopicName
from pyspark_magnetar.connecting import Connecting
from pyspark_magnetar.option_table import OPTIONS
from pyspark_magnetar.options import Use, parse_options


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Where to read, and where to begin when a query is new."""

    connecting: Connecting
    topic: str
    start: str

    @classmethod
    def parse(cls, options: Mapping[str, str], default_start: str) -> Self:
        """ValueError names the option that is missing, unknown or wrong."""
        values = parse_options(options, Use.READ, OPTIONS)
        if values["topic"] is None:
            raise ValueError("option 'topic' is missing")
        return cls(
            Connecting.of(values),
            str(TopicName.parse(values["topic"])),
            values["startingOffsets"] or default_start,
        )
