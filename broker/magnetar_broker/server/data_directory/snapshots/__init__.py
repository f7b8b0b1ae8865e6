"""Snapshots: consistent copies of the data directory of a running broker (docs/backup.md)."""
