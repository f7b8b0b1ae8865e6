"""Dispatchers decide which consumer gets the next entry: one for each subscription type."""
