"""The environment of a process: event loop, threads, memory, ports and log."""
