"""`magnetar perf`: generates load on a broker, and measures its performance."""
