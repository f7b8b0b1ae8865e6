"""How topics are compacted, by the settings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CompactionRules:
    """The same for all topics of a broker."""

    retain_keyless: bool = False
    """Messages without key stay, instead of going."""
    bytes_per_second: int = 0
    """So much is read at most; 0 is no limit."""
