"""Errors, settings, counters and tools that every part of the client may use."""
