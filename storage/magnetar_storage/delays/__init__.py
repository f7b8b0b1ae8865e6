"""The durable index of delayed entries."""
