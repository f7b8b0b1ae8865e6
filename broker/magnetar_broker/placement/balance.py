"""Chooses the bundle to move so that the workers of a broker share their load: pure decisions.

The load of a worker is the processor time that it takes, in cores; the load of a bundle is a share
of its worker's, in proportion to the bundle's traffic.
"""

from collections.abc import Container, Mapping
from typing import NamedTuple

MIN_GAIN = 0.02
"""Cores by which a move must lower the load of the busier of two workers: less is not worth it."""


class Bundle(NamedTuple):
    """A bundle of a namespace, by its range of hashes."""

    namespace: str
    range: str


class Imbalance(NamedTuple):
    """The busiest worker and the idlest one."""

    busiest: int
    idlest: int


def find_imbalance(loads: Mapping[int, float], threshold: float) -> Imbalance | None:
    """Return the extremes if the highest load of a worker is above the average by `threshold`."""
    busiest, idlest = max(loads, key=loads.__getitem__), min(loads, key=loads.__getitem__)
    average = sum(loads.values()) / len(loads)
    return Imbalance(busiest, idlest) if loads[busiest] > average + threshold else None


def choose(
    traffic: Mapping[Bundle, float], kept: Container[Bundle], busiest: float, idlest: float
) -> Bundle | None:
    """Return the bundle to move from the busiest worker, so that two loads become most alike.

    `traffic` is the traffic of each bundle of this worker.  The result is None if no move lowers
    the higher load by `MIN_GAIN`: a bundle with all the traffic would be as much for the other
    worker.
    """
    total = sum(traffic.values())
    best, lowest = None, busiest - MIN_GAIN
    for bundle in sorted(traffic):
        # promise[without and bundle not in kept]: a bundle that has just moved stays
        if traffic[bundle] > 0 and bundle not in kept:
            part = busiest * traffic[bundle] / total
            higher = max(busiest - part, idlest + part)
            # promise[< lowest -> <= busiest]: a bundle moves only if the loads come closer
            if higher < lowest:
                best, lowest = bundle, higher
    return best
