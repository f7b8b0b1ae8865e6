"""Somebody who does to the topics of a namespace whatever can be done, and books the answers.

One operation at a time is without its answer when the broker dies: then the books say what there
may be (`candidates`), and the next look tells which it is.
"""

import http.client
import json
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any

from admin_http import Admin, Answer
from crash.admin_books import DROP, KEEP, FamilyBook, LogBook, NamespaceBook, Schemas, Span, key_of
from crash.admin_eyes import RETENTIONS, Eyes, count_producers
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import Closed, Kind, RawClient, metadata, send_frame
from running_broker import RunningBroker

LOST = (OSError, http.client.HTTPException, Closed)
"""What a client sees of a kill."""
FAMILIES = {"plain": False, "other": False, "parted": True}
"""Names of topics, and whether they are partitioned."""
SUBSCRIPTIONS = ("red", "blue")
BURST = 12
STORY = 150
MOST_PARTITIONS = 4
STRATEGIES = ("ALWAYS_COMPATIBLE", "ALWAYS_INCOMPATIBLE")
POLICIES: dict[str, tuple[str, str, tuple[object, ...]]] = {
    "retention": ("retention", "retention", (KEEP, DROP)),
    "message_ttl": ("messageTTL", "messageTTL?messageTTL=", (3600, 0)),
    "max_producers": ("maxProducersPerTopic", "maxProducers", (1, 2, 3)),
    "schema_compatibility": (
        "schemaCompatibilityStrategy", "schemaCompatibilityStrategy", STRATEGIES
    ),
}  # fmt: skip
"""Paths of namespaces, of topics, and values; what is published is older than any time to live."""


class Wrong(Exception):
    """The broker has answered what it must not."""


class AdminLoad:
    """One namespace and its books; `live` until the broker dies, then `look`."""

    def __init__(
        self, broker: RunningBroker, namespace: str, dice: Random, answered: Callable[[], None]
    ) -> None:
        """`answered` is called at once when something was."""
        self.namespace = namespace
        self.done: dict[str, int] = {}
        """How often each operation was answered."""
        self.torn = 0
        """How often an operation had no answer and was not done or was, as it then turned out."""
        self.candidates = [NamespaceBook()]
        self.story: deque[str] = deque(maxlen=STORY)
        """What was asked last, for who looks for the reason of a problem."""
        self._broker = broker
        self._dice = dice
        self._answered = answered
        self._admin = Admin(broker)
        self._numbers = count()
        self._sent: dict[int, tuple[str, int, int]] = {}
        """Family, partition and birth of the log of each message of this life."""
        self._flying: set[int] = set()
        """Messages of the last producer whose receipts are awaited."""
        self._producer = 0
        self._client: RawClient
        self._operations = [
            (self._publish, 6), (self._subscribe, 3), (self._unsubscribe, 1), (self._ack, 3),
            (self._skip, 2), (self._skip_all, 1), (self._go_back, 1), (self._truncate, 1),
            (self._trim, 1), (self._compact, 2), (self._terminate, 1), (self._unload, 2),
            (self._say, 5), (self._say_of_all, 3), (self._register, 3), (self._forget_schema, 1),
            (self._grow, 1), (self._delete, 2), (self._delete_namespace, 1),
        ]  # fmt: skip

    @property
    def book(self) -> NamespaceBook:
        """What is sure at the moment."""
        return self.candidates[0]

    # Living ---------------------------------------------------------------------------

    def live(self) -> None:
        """Go on until the connection is lost; raises `Wrong` at once when something is."""
        operations, weights = zip(*self._operations, strict=True)
        try:
            with RawClient(self._broker.port) as self._client:
                while True:
                    if not self.book.exists:
                        self._make_namespace()
                    elif self._dice.random() < 0.15 or not self.book.families:
                        self._make()
                    else:
                        self._dice.choices(operations, weights)[0]()
        except LOST:
            self._land()  # what was confirmed before the end counts

    def look(self) -> list[str]:
        """What is wrong after a kill, compared with everything that may be right."""
        seen = Eyes(self._broker, self.namespace, list(FAMILIES)).look()
        verdicts = [one.differences(seen) for one in self.candidates]
        fitting = [one for one, wrong in zip(self.candidates, verdicts, strict=True) if not wrong]
        self.torn += len(self.candidates) > 1
        if not fitting:
            return [f"{self.namespace}: {' / '.join('; '.join(one) for one in verdicts)}"]
        book = fitting[-1]
        book.learn(seen)
        self.candidates = [book]
        self._flying.clear()
        self._sent.clear()
        return []

    def restarted(self) -> None:
        """No topic is loaded any more."""
        for log in self._logs(self.book):
            log.loaded = False

    def _ask(
        self, method: str, path: str, after: NamespaceBook | None, body: object = None,
        also: tuple[NamespaceBook, ...] = (), refusals: tuple[int, ...] = (),
    ) -> Answer:  # fmt: skip
        """Have it done; `after` is what the books say then, `also` what they may say meanwhile.

        With one of these `refusals` nothing has changed.
        """
        before = self.book
        before.let_go()
        self.candidates = [before, *also, *([after] if after is not None else [])]
        for one in self.candidates:
            one.let_go()
        self.story.append(f"{method} {path} {body}")
        answer = self._admin.ask(method, path, body)
        self._answered()
        what = f"{method} {path}: {answer}"
        self.story[-1] += f": {answer.status}"
        if answer.status not in (*refusals, 200, 204):
            raise Wrong(what)
        changed = after is not None and answer.status in (200, 204)
        self.candidates = [after if changed and after is not None else before]
        self.book.let_go()
        return answer

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    # What there is --------------------------------------------------------------------

    def _family(self) -> str:
        return self._dice.choice(sorted(self.book.families))

    def _some_log(self, book: NamespaceBook) -> tuple[str, int, LogBook]:
        name = self._family()
        index = self._dice.choice(sorted(book.families[name].logs))
        return name, index, book.families[name].logs[index]

    def _path(self, name: str, index: int = -1) -> str:
        part = f"-partition-{index}" if index >= 0 else ""
        return f"persistent/{self.namespace}/{name}{part}"

    def _url(self, name: str, index: int) -> str:
        return self._path(name, index).replace("/", "://", 1)

    def _logs(self, book: NamespaceBook) -> Iterator[LogBook]:
        for family in book.families.values():
            yield from family.logs.values()

    # Messages -------------------------------------------------------------------------

    def _publish(self) -> None:
        """Some messages, with something else meanwhile or not."""
        name, index, log = self._some_log(self.book)
        self._producer = next(self._numbers)
        opened = self._client.produce(self._url(name, index), self._producer)
        if isinstance(opened, pb.CommandError):
            if (opened.error == pb.TopicTerminatedError) != log.terminated:
                raise Wrong(f"{self._url(name, index)}: {opened}")
            return
        if log.terminated:
            raise Wrong(f"{self._url(name, index)} is terminated and takes producers")
        log.loaded = True
        for _ in range(self._dice.randint(1, BURST)):
            number = next(self._numbers)
            log.sent.append(number)
            self._sent[number] = name, index, log.born
            self._flying.add(number)
            self.story.append(f"send {number} to {name} {index}")
            said = metadata(number, partition_key=key_of(number))
            self._client.send_bytes(send_frame(number, b"value", self._producer, said))
        self.book.let_go()
        if self._dice.random() < 0.5:
            meanwhile = (self._truncate, self._unload, self._say, self._terminate, self._delete,
                         self._skip_all, self._say_of_all, self._subscribe, self._trim)  # fmt: skip
            self._dice.choice(meanwhile)()
        if self._land():
            self._client.request(pb.CommandCloseProducer(producer_id=self._producer, request_id=0))
        self._count("publish")

    def _land(self) -> bool:
        """Take the receipts; false when the producer was sent away instead."""
        kinds = (Kind.SEND_RECEIPT, Kind.SEND_ERROR, Kind.CLOSE_PRODUCER)
        while self._flying:
            try:
                frame = self._client.await_frame(lambda frame: frame.kind in kinds)
            except LOST:
                return False
            if frame.kind == Kind.SEND_RECEIPT:
                self._confirmed(frame.command.sequence_id, frame.command.message_id)
            elif frame.command.producer_id == self._producer:
                self._flying.clear()
                return False
        return True

    def _confirmed(self, number: int, place: pb.MessageIdData) -> None:
        """In all books that have the log to which it was sent."""
        self.story.append(f"receipt of {number}")
        self._flying.discard(number)
        name, index, born = self._sent[number]
        for book in self.candidates:
            family = book.families.get(name)
            log = family.logs.get(index) if family is not None else None
            if log is not None and log.born == born:
                log.places[number] = place.ledgerId, place.entryId

    def _ack(self) -> None:
        """All up to a message, by a consumer, answered."""
        after = self.book.copy()
        name, index, log = self._some_log(after)
        numbers = [n for n, place in log.places.items() if place[0] >= 0 and n >= log.kept_from]
        if not log.subscriptions or not numbers:
            return
        number, subscription = self._dice.choice(numbers), self._dice.choice([*log.subscriptions])
        joined = self._client.subscribe(self._url(name, index), subscription)
        if not isinstance(joined, pb.CommandSuccess):
            raise Wrong(f"{self._url(name, index)}: {joined}")
        span = log.subscriptions[subscription]
        span.low, span.high = max(span.low, number + 1), max(span.high, number + 1)
        log.loaded = True
        self.candidates = [self.book, after]
        self.story.append(f"ack {name} {index} {subscription} up to {number}")
        answer = self._client.ack([(*log.places[number], ())], pb.CommandAck.Cumulative)
        self._answered()
        if not isinstance(answer, pb.CommandAckResponse) or answer.HasField("error"):
            raise Wrong(f"{self._url(name, index)}: {answer}")
        self.candidates = [after]
        after.let_go()
        self._client.request(pb.CommandCloseConsumer(consumer_id=1, request_id=0))
        self._count("ack")

    def _skip(self) -> None:
        """Some messages, where it is known which these are."""
        after = self.book.copy()
        name, index, log = self._some_log(after)
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
        name, index, log = self._some_log(after)
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
        name, index, log = self._some_log(after)
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
        """To the end of all that is stored, while nothing is being published."""
        after = self.book.copy()
        name, index, log = self._some_log(after)
        if log.settled_to != log.top or self._flying:
            return
        after.let_go()
        log.compacted = log.compacted.grown(log.sent, log.kept_from, log.top)
        path = f"{self._path(name, index)}/compaction"
        self._ask("PUT", path, None)
        self.candidates = [self.book, after]
        while (said := self._admin.get(path).json)["status"] == "RUNNING":
            continue
        self._answered()
        if said["status"] != "SUCCESS":
            raise Wrong(f"{path}: {said}")
        self.candidates = [after]
        after.let_go()
        self._count("compact")

    # Topics ---------------------------------------------------------------------------

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
        name, index, log = self._some_log(after)
        if log.subscriptions:
            subscription = self._dice.choice([*log.subscriptions])
            del log.subscriptions[subscription]
            self._ask("DELETE", f"{self._path(name, index)}/subscription/{subscription}", after)
            self._count("unsubscribe")

    # Namespaces and policies ----------------------------------------------------------

    def _make_namespace(self) -> None:
        after = NamespaceBook(exists=True, says={"message_ttl": 3600, "retention": KEEP})
        body = {"message_ttl_in_seconds": 3600, "retention_policies": RETENTIONS[KEEP]}
        self._ask("PUT", f"namespaces/{self.namespace}", after, body)
        self._count("make namespace")

    def _delete_namespace(self) -> None:
        if self._dice.random() < 0.5:
            return
        path = f"namespaces/{self.namespace}?force=true"
        self._ask("DELETE", path, NamespaceBook())
        self._count("delete namespace")

    def _say(self) -> None:
        """What a topic says."""
        after, name = self.book.copy(), self._family()
        self._change(after, after.families[name].says, self._path(name), 1)

    def _say_of_all(self) -> None:
        """What a namespace says."""
        after = self.book.copy()
        self._change(after, after.says, f"namespaces/{self.namespace}", 0)

    def _change(self, after: NamespaceBook, says: dict[str, Any], path: str, level: int) -> None:
        policy = self._dice.choice([*POLICIES])
        segment, values = POLICIES[policy][level], POLICIES[policy][2]
        path, is_schema = f"{path}/{segment}", policy == "schema_compatibility"
        if self._dice.random() < 0.4:
            says.pop(policy, None)
            method = "PUT" if is_schema else "DELETE"
            path, body = path.partition("?")[0], "UNDEFINED" if is_schema else None
        else:
            value: Any = self._dice.choice(values)
            says[policy], method = value, "PUT" if is_schema else "POST"
            body = RETENTIONS[value] if policy == "retention" else value
            if path.endswith("="):
                path, body = f"{path}{value}", None
        between = after.copy()  # not every subscription yet, or it ended before anybody expired
        if policy == "message_ttl":
            self._expire(after)
        self._ask(method, path, after, body, also=(between,))
        self._check_producers(policy)
        self._check_expired(policy)
        self._count(f"{policy} of a {'topic' if level else 'namespace'}")

    def _expire(self, after: NamespaceBook) -> None:
        """All messages are too old, and topics that are loaded look when they are told."""
        for name, family in after.families.items():
            if after.holds("message_ttl", name) != self.book.holds("message_ttl", name):
                for log in family.logs.values():
                    for span in log.subscriptions.values() if log.loaded else ():
                        if after.holds("message_ttl", name)[0]:
                            log.pass_all(span)

    def _check_producers(self, policy: str) -> None:
        """Loaded topics keep to the limit as soon as it was answered."""
        if policy != "max_producers" or self._flying:
            return
        for name, family in self.book.families.items():
            limit = self.book.holds(policy, name)[0]
            for index, log in family.logs.items():
                if log.loaded and not log.terminated and isinstance(limit, int) and limit < 4:
                    found = count_producers(self._client, self._url(name, index))
                    if found != limit:
                        raise Wrong(f"{self._url(name, index)} takes {found} producers of {limit}")

    def _check_expired(self, policy: str) -> None:
        """Subscriptions of loaded topics have nothing that is too old any more."""
        if policy != "message_ttl" or self._flying:
            return
        for name, family in self.book.families.items():
            for index, log in family.logs.items():
                if log.loaded and log.subscriptions and self.book.holds(policy, name)[0]:
                    self._check_backlogs(self._path(name, index), log)

    def _check_backlogs(self, path: str, log: LogBook) -> None:
        told = self._admin.get(f"{path}/explainRetention").json["subscriptions"]
        waiting = {one["name"]: one["unackedEntries"] for one in told}
        late = [name for name, span in log.subscriptions.items()
                if waiting[name] and span.low == log.top]  # fmt: skip
        if late:
            raise Wrong(f"{path}: {late} wait for messages that are too old: {told}")

    # Schemas --------------------------------------------------------------------------

    def _register(self) -> None:
        """A new one, or one that is there and keeps its number."""
        name, after = self._family(), self.book.copy()
        schemas = after.schemas.setdefault(name, Schemas())
        known = {data: number for number, data in schemas.versions.items()}
        data = f"schema {next(self._numbers)}"
        if known and self._dice.random() < 0.3:
            data = self._dice.choice([*known])
        may = not known or self.book.holds("schema_compatibility", name)[0] == STRATEGIES[0]
        wanted = known.get(data, schemas.next)
        if may and data not in known:
            schemas.versions[wanted] = data
            schemas.next += 1
        path = f"schemas/{self.namespace}/{name}/schema"
        refused = () if may or data in known else (409,)
        answer = self._ask("POST", path, after, {"type": "EXTERNAL", "schema": data},
                           refusals=refused)  # fmt: skip
        if refused:
            if answer.status != 409:
                raise Wrong(f"{path}: {answer}, though no schema may follow")
        elif json.loads(answer.body)["version"]["version"] != wanted:
            raise Wrong(f"{path}: {answer}, expected {wanted}")
        self._count("register")

    def _forget_schema(self) -> None:
        name, after = self._family(), self.book.copy()
        if name in after.schemas:
            after.schemas[name] = Schemas(after.schemas[name].next + 1)
            self._ask("DELETE", f"schemas/{self.namespace}/{name}/schema", after)
            self._count("forget schema")
