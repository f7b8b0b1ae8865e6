"""The log of one topic: a list of segments, read and trimmed by offset."""
