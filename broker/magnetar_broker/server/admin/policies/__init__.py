"""Policies over HTTP: of namespaces, of topics, and the source of each value."""
