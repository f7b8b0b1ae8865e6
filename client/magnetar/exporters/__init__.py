"""Statistics and traces of a client for other systems."""
