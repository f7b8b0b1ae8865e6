"""The write-ahead log of one session, the life of a worker process, in a store of objects."""
