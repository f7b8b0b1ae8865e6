"""The algorithms that find where a split divides a bundle."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from magnetar_broker.placement.bundles import LAST, BundleRefused, Bundles

RANGE, TOPICS, POSITIONS = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
)
ALGORITHMS = (RANGE, TOPICS, POSITIONS)
"""The algorithms; the first one is the default."""


def hashes_of_split(
    algorithm: str, bundle: str, topics: Sequence[int] = (), positions: Sequence[int] = ()
) -> Callable[[Bundles], list[int]]:
    """Return the function that finds where a bundle is divided, for `BundleChanges.split`.

    `topics` are the hashes of a namespace's topics; `positions` are the hashes for `POSITIONS`. The
    function raises `BundleRefused` if it cannot divide the bundle, or the bundle does not exist.
    """

    def find(bundles: Bundles) -> list[int]:
        low, high = bundles.ends(bundle)
        if algorithm == POSITIONS:
            return sorted(set(positions))
        if algorithm == TOPICS:
            end = LAST + 1 if high == LAST else high
            # promise[without if low <= value < end]: a split by topics counts those of its bundle
            #   only
            inside = sorted(value for value in topics if low <= value < end)
            return [_between(bundle, inside, high)]
        if high - low < 2:
            raise BundleRefused(f"bundle {bundle} is too small to be divided")
        return [(low + high) // 2]

    return find


def largest(bundles: Bundles, topics: Sequence[int]) -> str:
    """Return the bundle with most topics, whose hashes are given; of equal ones the widest."""
    counts = [0] * len(bundles)
    for value in topics:
        counts[bundles.index_at(value)] += 1
    widths = [high - low for low, high in pairwise(bundles.boundaries)]
    sizes = list(zip(counts, widths, strict=True))
    return bundles.ranges[sizes.index(max(sizes))]


def _between(bundle: str, topics: Sequence[int], high: int) -> int:
    """Return the hash in the middle of the topics, with equally many on each side if possible."""
    found = [
        (abs(2 * below - len(topics)), middle)
        for below, (last, following) in enumerate(pairwise(topics), 1)
        if last < (middle := (last + following + 1) // 2) < high
    ]
    if not found:
        raise BundleRefused(
            f"{TOPICS} needs topics with two different hashes in bundle {bundle}, where the number "
            f"of topics is {len(topics)}: divide it with {RANGE}, or create topics first"
        )
    # promise[min(found) -> found[0]]: a split by topics divides nearest to the middle
    return min(found)[1]
