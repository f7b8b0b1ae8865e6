"""How much a `LocalStore` keeps in memory and in the journal."""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Limits:
    """Limits; in bytes unless the name has another unit."""

    journal_file_bytes: int = 32 << 20
    round_bytes: int = 16 << 20
    """The most that a commit round writes, unless a single append is larger."""
    ahead_bytes: int = 1 << 20
    """So much is handed to the journal's thread while it writes the round before: then the disk
    does not wait for the owner's loop, whose turns are long where so much arrives.  Less waits to
    be joined by more."""
    write_behind_bytes: int = 32 << 20
    """Records are written to segment files when more than this waits in memory."""
    small_flush_bytes: int = 256 << 10
    """While no segment has as much to write, records wait until there is twice as much of them:
    each file is synced by itself, which costs as much as writing some hundred KB."""
    unwritten_bytes: int = 160 << 20
    """The journal pauses while more than this waits in memory.  Rounds that are under way then end,
    so that two more rounds may wait."""
    checkpoint_bytes: int = 128 << 20
    checkpoint_seconds: float = 60.0
    index_bytes: int = 16 << 20
    """A checkpoint continues a segment's index file when the segment has grown by so much."""
    slice_segments: int = 200
    """How many segments are looked at, or accounted for, in one turn of the event loop."""
    retry_seconds: float = 1.0
    """How long to wait before the next attempt after writing segment files failed."""
    loaded_segments: int = 1024
    """How many indexes of finished segments stay in memory."""
    journal_is_synced: bool = True
    """If not, a power failure may take back deletions whose files are gone: then files that are
    missing after it are reported, and are no reason to refuse."""
    refuse_missing: bool = True
    """Whether a store is not opened when files of segments, or parts of them, are missing."""
    spare_segments: int = 32
    """The most that are created ahead while many are created."""

    @property
    def spare_journal_files(self) -> int:
        """Journal files kept to be reused: about as many as a checkpoint makes superfluous."""
        return self.checkpoint_bytes // self.journal_file_bytes + 2


DEFAULT = Limits()

UNWRITTEN_PART: Final = 20
"""What is in the journal and not in its segments needs room a second time: a start after a crash
must find it."""


def fitting(limits: Limits, disk_bytes: int, workers: int) -> Limits:
    """The limits for a disk of that size, which so many workers share: lower ones if it is small.

    Then a journal file is not larger than the reserve, so that a start has room for its part.
    """
    if not disk_bytes:  # some file systems do not say
        return limits
    part = disk_bytes // workers // UNWRITTEN_PART
    return replace(
        limits,
        journal_file_bytes=min(limits.journal_file_bytes, part // 2),
        round_bytes=min(limits.round_bytes, part // 2),
        write_behind_bytes=min(limits.write_behind_bytes, part // 4),
        unwritten_bytes=min(limits.unwritten_bytes, part),
        checkpoint_bytes=min(limits.checkpoint_bytes, part),
    )
