"""Bundles of topics, and the worker that owns each of them."""
