"""How topics and subscriptions come and go; the books follow."""

from crash.admin_books import FamilyBook, LogBook, Span
from crash.admin_desk import FAMILIES, Desk
from magnetar_broker.placement.bundles import Bundles
from magnetar_proto.names import TopicName

SUBSCRIPTIONS = ("red", "blue")
MOST_PARTITIONS = 4


class TopicLife(Desk):
    """Making, growing, ending, unloading and deleting."""

    def _make(self) -> None:
        names = [name for name in FAMILIES if name not in self.book.families]
        if not names:
            return
        name = self._dice.choice(names)
        after, born = self.book.copy(), next(self._numbers)
        partitions = self._dice.randint(1, 2) if FAMILIES[name] else 0
        logs = {index: LogBook(born) for index in range(partitions)} or {-1: LogBook(born)}
        after.families[name] = FamilyBook(partitions, logs)
        path = self._path(name) + ("/partitions" if partitions else "")
        self._ask("PUT", path, after, partitions or None)
        self._count("make")

    def _grow(self) -> None:
        names = [name for name in self.book.families if FAMILIES[name]]
        if not names or self.book.families[names[0]].partitions >= MOST_PARTITIONS:
            return
        after, born = self.book.copy(), next(self._numbers)
        family = after.families[names[0]]
        family.logs[family.partitions] = LogBook(
            born,
            subscriptions={name: Span(born, born) for name in family.logs[0].subscriptions},
        )
        family.partitions += 1
        self._ask("POST", f"{self._path(names[0])}/partitions", after, family.partitions)
        self._count("grow")

    def _delete(self) -> None:
        name, after = self._family(), self.book.copy()
        path = self._path(name) + ("/partitions" if FAMILIES[name] else "")
        del after.families[name]
        after.schemas.pop(name, None)
        self._ask("DELETE", f"{path}?force=true", after)
        self._count("delete")

    def _terminate(self) -> None:
        if self._dice.random() < 0.5:  # there is not much to be done with it any more
            return
        after = self.book.copy()
        name, index, log = self._some_log(after)
        log.terminated = True
        self._ask("POST", f"{self._path(name, index)}/terminate", after)
        self._count("terminate")

    def _unload(self) -> None:
        after = self.book.copy()
        if self._dice.random() < 0.3:
            logs, path = list(self._logs(after)), f"namespaces/{self.namespace}"
        else:
            name = self._family()
            logs, path = list(after.families[name].logs.values()), self._path(name)
        for log in logs:
            log.loaded = False
        self._ask("PUT", f"{path}/unload", after)
        self._count("unload")

    def _move(self) -> None:
        """The bundle of a topic, to another worker."""
        after = self.book.copy()
        name, index, _ = self._some_log(after)
        topic = self._url(name, index)
        workers = int(self._broker.settings["magnetarWorkers"])
        others = set(range(workers)) - {self._clients.number_of(topic)}
        if not others:
            return
        bundles = Bundles.parse(self._read(f"namespaces/{self.namespace}/bundles")["boundaries"])
        bundle = bundles.of(TopicName.parse(topic))
        for other, family in after.families.items():
            for number, log in family.logs.items():
                log.loaded &= bundles.of(TopicName.parse(self._url(other, number))) != bundle
        process = f"worker-{self._dice.choice(sorted(others))}"
        path = f"namespaces/{self.namespace}/{bundle}/unload?destinationBroker={process}"
        self._ask("PUT", path, after)
        self._count("move")

    def _subscribe(self) -> None:
        after = self.book.copy()
        name, index, log = self._some_log(after)
        names = [one for one in SUBSCRIPTIONS if one not in log.subscriptions]
        if not names:
            return
        first = self._dice.random() < 0.7
        span = Span(0, log.kept_from) if first else Span(log.settled_to, log.top)
        log.subscriptions[names[0]] = span
        log.loaded = True
        self._ask("PUT", f"{self._path(name, index)}/subscription/{names[0]}", after,
                  "earliest" if first else "latest")  # fmt: skip
        self._count("subscribe")

    def _unsubscribe(self) -> None:
        after = self.book.copy()
        name, index, log = self._some_log(after, subscribed=True)
        if log.subscriptions:
            subscription = self._dice.choice([*log.subscriptions])
            del log.subscriptions[subscription]
            self._ask("DELETE", f"{self._path(name, index)}/subscription/{subscription}", after)
            self._count("unsubscribe")
