"""Benchmarks of Magnetar beside the floor, a bare server that only appends and syncs."""
