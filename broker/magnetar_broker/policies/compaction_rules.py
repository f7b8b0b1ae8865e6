"""The rules by which topics are compacted, from the settings."""

from dataclasses import dataclass
from typing import Final

COMPACTION_CURSOR: Final = "__compaction"
"""The subscription that holds what has not been compacted; nothing but compaction moves it."""


@dataclass(frozen=True)
class CompactionRules:
    """The settings of compaction; they apply to all topics of a broker."""

    retain_keyless: bool = False
    """Whether messages without a key are kept instead of removed."""
    bytes_per_second: int = 0
    """The most bytes that are read per second; 0 means no limit."""
