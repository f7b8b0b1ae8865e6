"""Limits of one topic, of connections, and of what clients make the broker hold."""
