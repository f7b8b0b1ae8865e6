"""The asyncio shell of the broker: sockets, threads, HTTP, signals."""
