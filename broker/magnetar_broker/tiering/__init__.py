"""Offloading of closed ledgers: its state for one topic, and what the log's record says of it."""
