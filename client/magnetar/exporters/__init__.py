"""Exports a client's statistics and traces to other systems."""
