"""Loaded topics: one of them, the set of all, and how they apply changed policies."""
