"""Rebuilding the records of logs from the segments alone."""
