"""Helpers for every room: errors, records in the metadata store, concurrency, periodic jobs."""
