"""The state of deduplication that every published run reads; compiled, unlike the rest of it."""

from typing import Final

NO_ID: Final = -(1 << 63)
"""A sequence id below every other."""


class DeduplicationState:
    """The state of deduplication: whether it is on, and whether it must see durable runs."""

    __slots__ = ("on", "watching")

    def __init__(self) -> None:
        self.on = False
        """Whether `Deduplication.sort` is to be called for every run."""
        self.watching = False
        """Whether `Deduplication.on_durable` takes durable runs: it is on, or copies wait."""
