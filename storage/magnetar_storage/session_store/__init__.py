"""Segments in a store of objects alone: a log for each process, and packs of segments."""
