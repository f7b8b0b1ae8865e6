"""`magnetar perf`: load on a broker, and what it answers with."""
