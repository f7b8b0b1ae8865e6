"""Tenants, namespaces and topics by name: which there are, how they come to be and go."""
