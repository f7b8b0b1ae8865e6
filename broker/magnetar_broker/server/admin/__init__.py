"""What the HTTP port answers: Pulsar's admin REST API, lookups, health, metrics."""
