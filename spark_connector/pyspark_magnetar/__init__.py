"""A Structured Streaming source and sink."""
