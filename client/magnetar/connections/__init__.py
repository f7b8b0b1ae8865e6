"""Connections to brokers: opening, sharing, looking topics up, and registering again."""
