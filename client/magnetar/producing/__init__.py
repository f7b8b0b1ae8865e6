"""The sending side of a client: one producer of a partition, and its parts."""
