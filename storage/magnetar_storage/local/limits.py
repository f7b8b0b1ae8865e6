"""The limits of a `LocalStore` for memory and journal."""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Limits:
    """Limits; in bytes unless the name has another unit."""

    journal_file_bytes: int = 32 << 20
    round_bytes: int = 16 << 20
    """The most that a commit round writes, unless a single append is larger."""
    ahead_bytes: int = 1 << 20
    """The size from which a round is handed to the journal's thread while that writes the previous
    one: the disk need not wait for the owner's loop, whose turns are long under such a load.  A
    smaller round waits for more records."""
    write_behind_bytes: int = 32 << 20
    """Records are written to segment files when more than this waits in memory."""
    small_flush_bytes: int = 256 << 10
    """While no segment has this much to write, records wait until there are twice as many of them:
    each file is synced by itself, which costs as much as writing some hundred KB."""
    unwritten_bytes: int = 160 << 20
    """The journal pauses while more than this waits in memory.  Rounds in flight still end, so that
    two more rounds may wait."""
    checkpoint_bytes: int = 128 << 20
    checkpoint_seconds: float = 60.0
    index_bytes: int = 16 << 20
    """A checkpoint continues a segment's index file when the segment has grown by this much."""
    slice_segments: int = 200
    """The number of segments examined, or accounted for, in one turn of the event loop."""
    retry_seconds: float = 1.0
    """The delay before the next attempt after a failure to write segment files."""
    loaded_segments: int = 1024
    """The number of indexes of finished segments kept in memory."""
    journal_is_synced: bool = True
    """Whether the journal is synced.  If not, a power failure may undo deletions whose files are
    gone: files that are missing after it are reported, and do not prevent a start."""
    refuse_missing: bool = True
    """Whether a store is not opened when files of segments, or parts of them, are missing."""
    spare_segments: int = 32
    """The most segments created ahead while many are being created."""

    @property
    def spare_journal_files(self) -> int:
        """Journal files kept to be reused: about as many as a checkpoint makes superfluous."""
        return self.checkpoint_bytes // self.journal_file_bytes + 2


DEFAULT = Limits()

UNWRITTEN_PART: Final = 20
"""The divisor of the disk's size that limits records in the journal and not in segments: a start
after a crash needs the same space again, to write them to their segments."""


def fitting(limits: Limits, disk_bytes: int, workers: int) -> Limits:
    """Return the limits for a disk of `disk_bytes` that `workers` share: lower for a small disk.

    A journal file is then not larger than the reserve, so that a start has space for its part.
    """
    if not disk_bytes:  # some file systems do not say
        return limits
    part = disk_bytes // workers // UNWRITTEN_PART
    return replace(
        limits,
        # A start on a full disk needs one journal file and one part of the records that are not in
        # segments: each limit is a part of the same share.
        journal_file_bytes=min(limits.journal_file_bytes, part // 2),
        round_bytes=min(limits.round_bytes, part // 2),
        write_behind_bytes=min(limits.write_behind_bytes, part // 4),
        unwritten_bytes=min(limits.unwritten_bytes, part),
        checkpoint_bytes=min(limits.checkpoint_bytes, part),
    )
