"""Origins of segments, for tests of stores."""

from magnetar_storage.interfaces import SegmentKind, SegmentOrigin

MESSAGES = SegmentOrigin("/t", SegmentKind.MESSAGES)
"""The origin of a segment of which a test does not care what it is for."""
