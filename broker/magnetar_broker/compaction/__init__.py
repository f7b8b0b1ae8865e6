"""Compaction: a copy of the latest message of each key, for consumers that read compacted."""
