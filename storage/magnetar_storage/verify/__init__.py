"""Offline checks of a data directory."""
