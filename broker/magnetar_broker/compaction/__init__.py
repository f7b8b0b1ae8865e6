"""Compaction: of each key the latest message is kept, for readers that want no more."""
