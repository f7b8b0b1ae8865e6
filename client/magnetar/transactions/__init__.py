"""Transactions, and the coordinators that decide their outcome."""
