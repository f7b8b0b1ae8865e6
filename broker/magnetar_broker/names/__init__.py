"""Tenants, namespaces and topics by name: which exist, how they are created and deleted."""
