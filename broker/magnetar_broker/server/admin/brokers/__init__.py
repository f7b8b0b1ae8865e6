"""Brokers and clusters over HTTP: settings, health, placement, and what has no effect here."""
