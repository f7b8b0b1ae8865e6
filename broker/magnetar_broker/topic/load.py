"""Reports the load of a worker to the controller, which decides where bundles are."""

from collections.abc import Callable, Iterable
from typing import Protocol

from magnetar_broker.base.meter import Meter
from magnetar_broker.base.periodic_jobs import PAUSE_EVERY, Named
from magnetar_broker.ipc.link import Link
from magnetar_broker.names.workers.balancing import TRAFFIC, USED
from magnetar_broker.placement.bundle_owners import BundleOwners, Placed
from magnetar_storage.runtime.execution import Clock, yield_turn


class TrafficCounters(Named, Protocol):
    """The counters of a topic's traffic."""

    @property
    def meter(self) -> Meter: ...


def serve_load(
    topics: Iterable[TrafficCounters],
    owners: BundleOwners,
    clock: Clock,
    used: Callable[[], tuple[float, float]],
    link: Link,
) -> None:
    """Answer the requests of `Balancing`.

    `used` is the processor time that this process has taken, and the time; both in seconds, from
    any beginning.
    """

    async def traffic() -> list[tuple[str, str, float]]:
        """Return namespace, bundle and traffic of every bundle that has any.

        Traffic is the messages and KiB a second, in and out, of the last window of rates: a message
        costs about as much processor time as a KiB.
        """
        placed: dict[str, Placed] = {}
        rates: dict[tuple[str, int], float] = {}
        for count, topic in enumerate(topics, 1):
            if count % PAUSE_EVERY == 0:
                await yield_turn(clock)
            messages_in, bytes_in, messages_out, bytes_out = topic.meter.rates
            rate = messages_in + messages_out + (bytes_in + bytes_out) / 1024
            namespace = topic.name.namespace_name
            known = placed.get(namespace) or owners.of(namespace)
            if rate > 0 and known is not None:
                # One table for the whole answer: placements may change while this coroutine waits.
                placed[namespace] = known
                bundle = namespace, known.bundles.index_of(topic.name)
                rates[bundle] = rates.get(bundle, 0.0) + rate
        return [
            (namespace, placed[namespace].bundles.ranges[index], rate)
            for (namespace, index), rate in rates.items()
        ]

    link.serve({USED: used, TRAFFIC: traffic})
