"""Compacted data: the last message of each key."""
