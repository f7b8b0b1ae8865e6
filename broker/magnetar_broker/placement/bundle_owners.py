"""The owner of each bundle: a table that every process of a broker with several workers has.

In a cluster it has the workers of all brokers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from magnetar_broker.base.errors import NotReady
from magnetar_broker.config.listeners import ListenerUrls
from magnetar_broker.ipc.link import Handler
from magnetar_broker.placement.bundles import Bundles
from magnetar_broker.placement.ownership import Owner
from magnetar_proto.names import TopicName

PLACED, UNPLACED, CURRENT = "bundles.placed", "bundles.unplaced", "bundles.current"
"""The messages of the controller to workers: a line of the table, the end of one, and the question
whether all that was sent before is in the table."""
JOINED, LEFT = "bundles.joined", "bundles.left"
"""The messages of the leader of a cluster to workers: a worker with the addresses of its broker,
and the end of one."""


Line = tuple[str, tuple[int, ...], tuple[str, ...]]
"""A namespace, the boundaries of its bundles, and the name of the worker of each."""


Urls = tuple[str, ...]
"""The fields of `ListenerUrls`."""
Joined = tuple[str, Urls, dict[str, Urls]]
"""The name of a worker, and the addresses of its broker: the default ones and those by listener."""


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

    Workers of other brokers join and leave; a number is used for one worker only.
    """

    def __init__(self, urls: Sequence[str], broker: str = "") -> None:
        """`urls` are the URLs that identify the workers of this broker, by worker number.

        `broker` is the id of this broker in its cluster, if it is in one.
        """
        self._broker = broker
        self._urls = urls
        self._names = {
            number: f"{broker}/{number}" if broker else urlsplit(url).hostname or url
            for number, url in enumerate(urls)
        }
        """The names of all workers by number."""
        self._numbers = {name: number for number, name in self._names.items()}
        self._next = len(urls)
        self._owners: dict[int, Owner] = {}
        """The workers with known addresses."""
        self._placed: dict[str, Placed] = {}
        self.announce(ListenerUrls())

    def announce(
        self, default: ListenerUrls, listeners: Mapping[str, ListenerUrls] | None = None
    ) -> None:
        """Set the broker's addresses, with which lookups are answered from now on."""
        self._default = default
        for number, url in enumerate(self._urls):
            self._owners[number] = Owner(default, True, listeners or {}, url)

    # The workers ----------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """The number of processes that own bundles."""
        return len(self._names)

    @property
    def service_url(self) -> str:
        """The announced service URL."""
        return self._default.pulsar or self._default.pulsar_tls

    @property
    def names(self) -> Mapping[int, str]:
        """The names of the workers for people, by worker number."""
        return self._names

    def number_of(self, name: str) -> int:
        """Return the number of the worker with a name; ValueError if there is none."""
        if name not in self._numbers:
            expected = ", ".join(self._names.values())
            raise ValueError(f"there is no process {name}: expected {expected}")
        return self._numbers[name]

    def known(self, name: str) -> int:
        """Return the number of a worker of the cluster, which need not have joined."""
        if name not in self._numbers:
            self._names[self._next], self._numbers[name] = name, self._next
            self._next += 1  # promise: a number is of one worker
        return self._numbers[name]

    def join(
        self,
        name: str,
        default: ListenerUrls,
        listeners: Mapping[str, ListenerUrls] | None = None,
    ) -> int:
        """Add a worker of another broker, or change the addresses of its broker."""
        number = self.known(name)
        if self.is_here(number):
            raise ValueError(f"{name} is a worker of this broker: its addresses are announced")
        # Clients are sent to the broker.  Only its own processes can pass a client on to one of
        # them, so the URL that identifies the process would lead nowhere.
        self._owners[number] = Owner(default, False, listeners or {})
        return number

    def leave(self, name: str) -> None:
        """Remove a worker of another broker, which owns no bundles any more."""
        number = self.number_of(name)
        owned = [one for one, placed in self._placed.items() if number in placed.workers]
        # promise: every bundle has an owner that is known
        if owned or self.is_here(number):
            raise ValueError(f"{name} stays: it owns bundles of {owned or 'this broker'}")
        del self._names[number], self._numbers[name]
        self._owners.pop(number, None)

    def joined(self) -> list[Joined]:
        """Return the arguments of `JOINED` for all workers of a cluster that have joined."""
        return [self.joined_as(worker) for worker in self._owners] if self._broker else []

    def joined_as(self, worker: int) -> Joined:
        """Return the arguments of `JOINED` for a worker."""
        owner = self._owners[worker]
        listeners = {listener: tuple(urls) for listener, urls in owner.listeners.items()}
        return self._names[worker], tuple(owner.default), listeners

    def is_here(self, worker: int) -> bool:
        """Return whether a worker is one of this broker."""
        return worker < len(self._urls)

    def address_of(self, worker: int) -> str:
        """Return host and port of the URL that stands for a worker of this broker."""
        return urlsplit(self._urls[worker]).netloc

    def owner(self, worker: int) -> Owner:
        """Return the broker of a worker as an owner; `NotReady` while it has not joined.

        For this broker, it has the worker as the process that serves the topic.
        """
        owner = self._owners.get(worker)
        if owner is None:
            raise NotReady(f"{self._names[worker]} is not there now: retry")
        return owner

    # The table ------------------------------------------------------------------------------

    def worker_of(self, topic: TopicName) -> int | None:
        """Return the number of the worker that owns a topic's bundle; None if unknown here."""
        placed = self._placed.get(topic.namespace_name)
        return None if placed is None else placed.workers[placed.bundles.index_of(topic)]

    def worker_here(self, topic: TopicName) -> int | None:
        """Return the number of the worker that owns a topic's bundle, if it is of this broker."""
        worker = self.worker_of(topic)
        # promise[without and self.is_here(worker)]: nothing is relayed to another broker
        return worker if worker is not None and self.is_here(worker) else None

    def of(self, namespace: str) -> Placed | None:
        """Return the owners of the bundles of a namespace; None if they are not known here."""
        return self._placed.get(namespace)

    def all(self) -> list[tuple[str, Placed]]:
        """Return the whole table of owners."""
        return list(self._placed.items())

    def values_of(self, namespace: str, placed: Placed) -> Line:
        """Return the arguments of `PLACED`, in which workers have names: numbers are local."""
        names = tuple(self._names[worker] for worker in placed.workers)
        return namespace, placed.bundles.boundaries, names

    def placed_of(
        self, namespace: str, boundaries: Sequence[int], names: Sequence[str]
    ) -> tuple[str, Placed]:
        """Return the line of the table of which these are the values."""
        # promise[self.known -> self.number_of]: workers that are not known here may own bundles
        return namespace, Placed(Bundles(tuple(boundaries)), tuple(map(self.known, names)))

    def place(self, namespace: str, placed: Placed) -> None:
        """Set the owners of the bundles of a namespace."""
        self._placed[namespace] = placed

    def forget(self, namespace: str) -> None:
        """Remove the owners of a namespace, if it has any."""
        self._placed.pop(namespace, None)


def following(owners: BundleOwners) -> Mapping[str, Handler]:
    """Return the handlers of a process whose table follows the controller's."""

    def place(*values: Any) -> None:
        owners.place(*owners.placed_of(*values))

    def join(name: str, default: Urls, listeners: dict[str, Urls]) -> None:
        if not owners.is_here(owners.known(name)):  # else its addresses are those announced here
            by_name = {listener: ListenerUrls(*urls) for listener, urls in listeners.items()}
            owners.join(name, ListenerUrls(*default), by_name)

    return {
        PLACED: place,
        UNPLACED: owners.forget,
        CURRENT: lambda: None,
        JOINED: join,
        LEFT: owners.leave,
    }
