"""An asyncio client for brokers that speak the Pulsar protocol.

async with magnetar.connect("pulsar://localhost:6650") as client:
    producer = await client.producer("orders")
    await producer.send(b"one")
    consumer = await client.subscribe("orders", "billing", initial_position="earliest")
    batch = await consumer.receive_batch(timeout_s=10)
    consumer.ack(batch)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.api import *  # noqa: F403


def __getattr__(name: str) -> object:
    """Import the whole API at the first use of a name: `magnetar standalone` needs none of it."""
    api = import_module("magnetar.api")
    globals().update({public: getattr(api, public) for public in ("__all__", *api.__all__)})
    if name in globals():
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *import_module("magnetar.api").__all__]
