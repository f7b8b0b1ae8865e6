"""Producers: who may publish, what is published twice, and what waits for the disk."""
