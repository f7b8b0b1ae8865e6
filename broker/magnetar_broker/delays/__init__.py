"""Delayed delivery: which messages of a topic wait, and when they are due."""
