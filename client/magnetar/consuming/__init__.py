"""The receiving side of a client: one consumer of a partition, and its parts."""
