"""Segment ids that name their session, the life of the process that created the segment.

The lowest 24 bits are the number of the session, and the others count.  So processes that know
nothing of each other never assign the same id, and ids grow in each topic.
"""

from typing import Final

from magnetar_storage.interfaces import SegmentId

SESSIONS: Final = 1 << 24
"""The numbers of sessions are below this; 0 is not used."""


def session_of(segment: SegmentId) -> int:
    """Return the session that created a segment; 0 if the id names none."""
    return segment % SESSIONS if segment >= SESSIONS else 0


def first_above(beyond: SegmentId, session: int) -> SegmentId:
    """Return the smallest id above `beyond` that names the session."""
    least = max(beyond + 1, SESSIONS)
    return least + (session - least) % SESSIONS
