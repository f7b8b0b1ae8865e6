"""Durable state of a topic beside its cursors, which the cursor segment carries too."""

from typing import Final, Protocol

DEDUPLICATION: Final = 1
DELAYS: Final = 2
IDLENESS: Final = 3
"""The numbers of the sides there are; never to be used again for another."""


class SideState(Protocol):
    """State that changes in memory at once and is written with the cursors.

    After changing it, its owner calls `CursorLog.side_changed`.
    """

    def take_delta(self) -> list[bytes]:
        """What changed since the last call, nothing if nothing did; not handed out again."""

    def snapshot(self) -> list[bytes]:
        """The whole state, in pieces of at most a MiB; nothing is left for `take_delta`."""

    def apply(self, data: bytes) -> None:
        """Replay a piece of either; ValueError, KeyError or `struct.error` if it is none."""


class KeptSide:
    """A state that this release does not know: what was read of it is written again as it was."""

    def __init__(self) -> None:
        self._records: list[bytes] = []

    def take_delta(self) -> list[bytes]:
        return []

    def snapshot(self) -> list[bytes]:
        return self._records

    def apply(self, data: bytes) -> None:
        self._records.append(data)
