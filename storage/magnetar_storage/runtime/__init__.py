"""The environment that is passed in: disk, clock, threads, tasks."""
