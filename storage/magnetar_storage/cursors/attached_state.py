"""Durable state of a topic stored in the cursor segment, together with the cursors."""

from typing import Final, Protocol

DEDUPLICATION: Final = 1
DELAYS: Final = 2
IDLENESS: Final = 3
TRANSACTIONS: Final = 4
PENDING_ACKS: Final = 5
COORDINATOR: Final = 6
READ_HISTORY: Final = 7
"""The numbers of the attached states; a number must never be reused for another state."""


class AttachedState(Protocol):
    """State that changes in memory at once and is written with the cursors.

    After changing it, its owner calls `CursorLog.state_changed`.
    """

    def take_delta(self) -> list[bytes]:
        """Return the changes since the last call, which the caller must write; empty if none."""

    def snapshot(self) -> list[bytes]:
        """Return the whole state, in pieces of at most 1 MiB; `take_delta` then returns nothing."""

    def apply(self, data: bytes) -> None:
        """Replay a piece of a delta or snapshot; ValueError, KeyError or `struct.error` if
        malformed.
        """


class UnknownState:
    """A state written by a later release: its records are kept and written again unchanged."""

    def __init__(self) -> None:
        self._records: list[bytes] = []

    # This release changes nothing in it; what is stored is written again with each snapshot.
    def take_delta(self) -> list[bytes]:
        return []

    def snapshot(self) -> list[bytes]:
        return self._records

    def apply(self, data: bytes) -> None:
        self._records.append(data)
