"""Metadata in servers that several brokers share: etcd and PostgreSQL."""
