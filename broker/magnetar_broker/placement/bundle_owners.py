"""The owner of each bundle: a table that every process of a broker with several workers has."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.ipc.link import Handler
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.placement.ownership import Owner
from magnetar_proto.names import TopicName

PLACED, UNPLACED, CURRENT = "bundles.placed", "bundles.unplaced", "bundles.current"
"""The messages of the controller to workers: a line of the table, the end of one, and the question
whether all that was sent before is in the table."""


class Placed(NamedTuple):
    """The bundles of a namespace, and the worker of each."""

    bundles: Bundles
    workers: tuple[int, ...]

    def adapted(self, bundles: Bundles) -> "Placed":
        """Return these bundles, each owned by the worker that owns the hash at which it begins."""
        lows = bundles.boundaries[:-1]
        return Placed(bundles, tuple(self.workers[self.bundles.index_at(low)] for low in lows))


class BundleOwners:
    """The controller decides (`placement.py`); in a worker the table follows, through `following`.

    A worker may know less than the controller for a moment.  Nothing depends on that but where it
    sends clients: the controller alone decides which topics are loaded.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        """`urls` are the URLs that identify the workers, by worker number."""
        self._urls = urls
        self._placed: dict[str, Placed] = {}
        self.announce(ListenerUrls())

    def announce(
        self, default: ListenerUrls, listeners: Mapping[str, ListenerUrls] | None = None
    ) -> None:
        """Set the broker's addresses, with which lookups are answered from now on."""
        self._default = default
        self._owners = [Owner(default, True, listeners or {}, url) for url in self._urls]

    # The workers ----------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """The number of processes that own bundles."""
        return len(self._urls)

    @property
    def service_url(self) -> str:
        """The announced service URL."""
        return self._default.pulsar or self._default.pulsar_tls

    @property
    def names(self) -> list[str]:
        """The names of the workers for people, by worker number."""
        return [urlsplit(url).hostname or url for url in self._urls]

    def address_of(self, worker: int) -> str:
        """Return host and port of the URL that stands for a worker."""
        return urlsplit(self._urls[worker]).netloc

    def owner(self, worker: int) -> Owner:
        """Return this broker as an owner, with a worker as the process that serves the topic."""
        return self._owners[worker]

    # The table ------------------------------------------------------------------------------

    def worker_of(self, topic: TopicName) -> int | None:
        """Return the number of the worker that owns a topic's bundle; None if unknown here."""
        placed = self._placed.get(topic.namespace_name)
        return None if placed is None else placed.workers[placed.bundles.index_of(topic)]

    def of(self, namespace: str) -> Placed | None:
        """Return the owners of the bundles of a namespace; None if they are not known here."""
        return self._placed.get(namespace)

    def all(self) -> list[tuple[str, Placed]]:
        """Return the whole table of owners."""
        return list(self._placed.items())

    def place(self, namespace: str, placed: Placed) -> None:
        """Set the owners of the bundles of a namespace."""
        self._placed[namespace] = placed

    def forget(self, namespace: str) -> None:
        """Remove the owners of a namespace, if it has any."""
        self._placed.pop(namespace, None)


def values_of(namespace: str, placed: Placed) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return the arguments of `PLACED`."""
    return namespace, placed.bundles.boundaries, placed.workers


def placed_of(
    namespace: str, boundaries: Sequence[int], workers: Sequence[int]
) -> tuple[str, Placed]:
    """Return the line of the table of which these are the values."""
    return namespace, Placed(Bundles(tuple(boundaries)), tuple(workers))


def following(owners: BundleOwners) -> Mapping[str, Handler]:
    """Return the handlers of a process whose table follows the controller's."""

    def place(*values: Any) -> None:
        owners.place(*placed_of(*values))

    return {PLACED: place, UNPLACED: owners.forget, CURRENT: lambda: None}
