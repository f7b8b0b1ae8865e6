"""Origins of segments, for tests of stores."""

from magnetar_storage.interfaces import SegmentKind, SegmentOrigin

MESSAGES = SegmentOrigin("/t", SegmentKind.MESSAGES)
"""The origin of segments in tests for which it is irrelevant."""
