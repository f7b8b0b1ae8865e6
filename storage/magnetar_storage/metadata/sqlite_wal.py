"""Damage in SQLite's write-ahead log, which SQLite itself takes for the end of the log.

A commit is synced before the next one is written, so only the last one can be torn: a damaged frame
that is followed by a whole commit and more was damaged after it was written.
"""

from struct import Struct

HEADER = Struct(">8I")
"""magic, version, bytes of a page, number of the checkpoint, two salts, two sums."""

FRAME = Struct(">6I")
"""page, pages of the database if this is a commit (else 0), two salts, two sums."""

SUMMED_OF_HEADER = 24
SUMMED_OF_FRAME = 8
WORDS = {0x377F0682: "<", 0x377F0683: ">"}
"""The byte order of the words that are summed, by magic."""

Sums = tuple[int, int]


def damaged_frame(log: bytes) -> int | None:
    """Return the offset of the first damaged frame that cannot be a torn write; else None."""
    if len(log) < HEADER.size:
        return None
    magic, _, page_bytes, _, *rest = HEADER.unpack_from(log)
    salts, sums = rest[:2], (rest[2], rest[3])
    if magic not in WORDS or _summed(log[:SUMMED_OF_HEADER], WORDS[magic], (0, 0)) != sums:
        return None
    size = FRAME.size + page_bytes
    damaged, commit_follows = None, False
    for at in range(HEADER.size, len(log) - size + 1, size):
        _, commit, *of_frame = FRAME.unpack_from(log, at)
        stored = of_frame[2], of_frame[3]
        summed = log[at : at + SUMMED_OF_FRAME] + log[at + FRAME.size : at + size]
        # After a checkpoint SQLite begins at the start of the file again, with other salts: where
        # older frames follow, the log ends.
        intact = of_frame[:2] == salts and _summed(summed, WORDS[magic], sums) == stored
        if damaged is None and not intact:
            damaged = at
        elif damaged is not None and intact:
            if commit_follows:
                return damaged
            commit_follows = commit > 0
        # As stored, not as computed: so the frames after a damaged one can be verified.
        sums = stored
    return None


def _summed(data: bytes, order: str, sums: Sums) -> Sums:
    first, second = sums
    for one, other in Struct(f"{order}2I").iter_unpack(data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
