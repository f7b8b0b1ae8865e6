"""Stores of objects by their place: S3 and what is like it, Google, Azure, and directories."""
