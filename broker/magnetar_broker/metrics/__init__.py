"""Metrics: counters on the hot paths, a snapshot on request, the page for Prometheus."""
