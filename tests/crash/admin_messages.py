"""What can be done with messages and positions; the books follow."""

from crash.admin_books import Span
from crash.admin_desk import Desk, Wrong
from magnetar_proto import PulsarApi_pb2 as pb


class Messages(Desk):
    """Acknowledging, skipping, deleting, compacting."""

    def _ack(self) -> None:
        """All up to a message, by a consumer, answered."""
        after = self.book.copy()
        name, index, log = self._some_log(after, subscribed=True)
        numbers = [n for n, place in log.places.items() if place[0] >= 0 and n >= log.kept_from]
        if not log.subscriptions or not numbers:
            return
        number, subscription = self._dice.choice(numbers), self._dice.choice([*log.subscriptions])
        client = self._clients.of(self._url(name, index))
        joined = client.subscribe(self._url(name, index), subscription)
        if not isinstance(joined, pb.CommandSuccess):
            raise Wrong(f"{self._url(name, index)}: {joined}")
        span = log.subscriptions[subscription]
        span.low, span.high = max(span.low, number + 1), max(span.high, number + 1)
        log.loaded = True
        self.candidates = [self.book, after]
        self.story.append(f"ack {name} {index} {subscription} up to {number}")
        answer = client.ack([(*log.places[number], ())], pb.CommandAck.Cumulative)
        self._answered()
        if not isinstance(answer, pb.CommandAckResponse) or answer.HasField("error"):
            raise Wrong(f"{self._url(name, index)}: {answer}")
        self.candidates = [after]
        after.let_go()
        client.request(pb.CommandCloseConsumer(consumer_id=1, request_id=0))
        self._count("ack")

    def _skip(self) -> None:
        """Some messages, where it is known which these are."""
        after = self.book.copy()
        name, index, log = self._some_log(after, subscribed=True)
        if not log.subscriptions or log.settled_to != log.top or log.expiring:
            return
        subscription, span = self._dice.choice([*log.subscriptions.items()])
        waiting = [n for n in log.sent if n >= span.low]
        if span.low != span.high or not waiting:
            return
        skipped = self._dice.randint(1, len(waiting))
        span.low = span.high = waiting[skipped - 1] + 1
        self._ask("POST", f"{self._path(name, index)}/subscription/{subscription}/skip/{skipped}",
                  after)  # fmt: skip
        self._count("skip")

    def _skip_all(self) -> None:
        after = self.book.copy()
        name, index, log = self._some_log(after, subscribed=True)
        if not log.subscriptions:
            return
        subscription, span = self._dice.choice([*log.subscriptions.items()])
        log.pass_all(span)
        log.loaded = True
        self._ask("POST", f"{self._path(name, index)}/subscription/{subscription}/skip_all", after)
        self._count("skip all")

    def _go_back(self) -> None:
        """To a message that must be there still."""
        after = self.book.copy()
        name, index, log = self._some_log(after, subscribed=True)
        numbers = [n for n, place in log.places.items() if place[0] >= 0 and n >= log.kept_from]
        if not log.subscriptions or not numbers:
            return
        number, subscription = self._dice.choice(numbers), self._dice.choice([*log.subscriptions])
        log.subscriptions[subscription] = Span(number, number)
        ledger, entry = log.places[number]
        self._ask("POST", f"{self._path(name, index)}/subscription/{subscription}/resetcursor",
                  after, {"ledgerId": ledger, "entryId": entry})  # fmt: skip
        self._count("go back")

    def _truncate(self) -> None:
        after, between = self.book.copy(), self.book.copy()
        name, index, log = self._some_log(after)
        torn = between.families[name].logs[index]
        for subscription, span in log.subscriptions.items():
            log.pass_all(span)
            torn.subscriptions[subscription].high = torn.top
        log.kept_from = torn.kept_from = log.top
        log.loaded = True
        self._ask("DELETE", f"{self._path(name, index)}/truncate", after, also=(between,))
        self._count("truncate")

    def _trim(self) -> None:
        name, index, _ = self._some_log(self.book)
        self._ask("POST", f"{self._path(name, index)}/trim", None)
        self._count("trim")

    def _compact(self) -> None:
        name, index, log = self._some_log(self.book)
        if log.settled_to == log.top and not self._flying:
            self._compact_to_end(name, index)

    def _compact_to_end(self, name: str, index: int) -> None:
        """While nothing is being published, and everything that is stored is known."""
        after = self.book.copy()
        after.let_go()
        log = after.families[name].logs[index]
        log.compacted = log.compacted.grown(log.sent, log.kept_from, log.top)
        path = f"{self._path(name, index)}/compaction"
        self._ask("PUT", path, None)
        self.candidates = [self.book, after]
        while (status := self._read(path))["status"] == "RUNNING":
            continue
        self._answered()
        if status["status"] != "SUCCESS":
            raise Wrong(f"{path}: {status}")
        self.candidates = [after]
        after.let_go()
        self._count("compact")
