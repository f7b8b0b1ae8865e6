"""Damage of stored messages: finding it, and setting damaged entries aside."""
