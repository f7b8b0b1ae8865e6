"""The handlers of the HTTP port: Pulsar's admin REST API, lookups, health, metrics."""
