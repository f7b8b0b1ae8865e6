"""Segments, journal, cursors: durable storage of entries and metadata.

This package knows neither the wire protocol nor the event loop.  Payloads are
opaque bytes; disk, threads and clock are constructor arguments (`runtime`).
"""
