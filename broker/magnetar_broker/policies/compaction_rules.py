"""How topics are compacted, by the settings."""

from dataclasses import dataclass
from typing import Final

COMPACTION_CURSOR: Final = "__compaction"
"""The subscription that holds what has not been compacted; nothing but compaction moves it."""


@dataclass(frozen=True)
class CompactionRules:
    """The settings of compaction; they apply to all topics of a broker."""

    retain_keyless: bool = False
    """Messages without key stay, instead of going."""
    bytes_per_second: int = 0
    """So much is read at most; 0 is no limit."""
