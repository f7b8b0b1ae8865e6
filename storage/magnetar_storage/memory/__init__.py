"""Segments and metadata in memory: for tests and simulation."""
