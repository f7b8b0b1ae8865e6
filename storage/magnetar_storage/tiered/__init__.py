"""Copies of finished segments in stores of objects: made, verified, read, deleted."""
