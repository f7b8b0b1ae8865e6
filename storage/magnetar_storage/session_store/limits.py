"""The limits of a session store."""

from dataclasses import dataclass, field
from typing import Final

from magnetar_storage.wal.slot_writer import WalLimits

SLOTS_BEHIND: Final = 64
"""The slots behind the end of a session that its writer may have stored, at most."""


@dataclass(frozen=True)
class SessionLimits:
    """Limits; in bytes unless the name has another unit."""

    wal: WalLimits = field(default_factory=WalLimits)
    settle_bytes: int = 64 << 20
    """Segments are written to packs when more than this waits in memory."""
    settle_slots: int = 500
    """Segments are written to packs when the log has more slots than this."""
    most_bytes: int = 512 << 20
    """No slot is uploaded while more than this waits in memory."""
    most_slots: int = 1000
    """No slot is uploaded while the log has more slots than this: a takeover has to read them."""
    sealed_seconds: float = 10.0
    """The longest time after which sealed segments are written to packs, so that the sessions of
    other processes can read them."""
    most_extents: int = 8
    """The parts of a finished segment above which they are joined."""
    retry_seconds: float = 1.0
    """The delay before the next attempt after a failure to write packs."""
    read_ahead_bytes: int = 64 << 20
    """The bytes that are kept of what was read ahead, for all threads together."""
    loaded_segments: int = 1024
    """The number of indexes of segments in packs that are kept in memory."""

    def __post_init__(self) -> None:
        # promise: a takeover finds all slots that a process may have stored behind its end
        if self.wal.unreported_slots > SLOTS_BEHIND:
            raise ValueError(f"unreported_slots is more than {SLOTS_BEHIND}")


DEFAULT: Final = SessionLimits()
