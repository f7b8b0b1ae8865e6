"""Producers: access modes, deduplication, appending to the log, receipts."""
