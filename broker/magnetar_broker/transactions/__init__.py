"""Coordinators of transactions: their state, their log, and how they end transactions."""
