"""An asyncio client for Pulsar-compatible brokers."""
