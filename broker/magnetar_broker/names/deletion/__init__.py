"""Deletion of tenants, namespaces and topics, which goes on after a crash."""
