"""How much a `LocalStore` keeps where."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes, in bytes unless the name says otherwise."""

    journal_file_bytes: int = 32 << 20
    round_bytes: int = 16 << 20
    """A commit round takes no more than this, a single larger append aside."""
    write_behind_bytes: int = 32 << 20
    """Written to segment files when more waits in memory."""
    unwritten_bytes: int = 160 << 20
    """The journal pauses while more than this waits in memory."""
    checkpoint_bytes: int = 128 << 20
    checkpoint_seconds: float = 60.0
    retry_seconds: float = 1.0
    """How long to wait after write-behind failed."""
    loaded_segments: int = 1024
    """Indexes of sealed segments kept in memory."""

    @property
    def spare_journal_files(self) -> int:
        """Journal files kept for being used again: what one checkpoint makes superfluous."""
        return self.checkpoint_bytes // self.journal_file_bytes + 2


DEFAULT = Limits()
