"""The local engine: journal, segment files, checkpoints, recovery."""
