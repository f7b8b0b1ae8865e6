"""Everything that a namespace has, read by clients and over HTTP."""

from typing import Any

from admin_http import Admin
from crash.admin_books import (
    DROP,
    KEEP,
    MOST_PRODUCERS,
    SeenFamily,
    SeenLog,
    SeenNamespace,
)
from crash.books import Place
from crash.owners import Owners
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import parse_metadata
from magnetar_proto.ids import MessageId
from raw_client import Kind, RawClient, Received
from running_broker import RunningBroker

COMPACTION = "__compaction"
READER = "looking"
PERMITS = 1_000_000
RETENTIONS = {
    KEEP: {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
    DROP: {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
}
BEFORE_ALL: Place = (-1, -1)
LOOKED_AT = ("retention", "message_ttl", "max_producers", "schema_compatibility")


class Eyes:
    """Looks at one namespace; topics are loaded by that."""

    def __init__(self, broker: RunningBroker, namespace: str, families: list[str]) -> None:
        """`families` are the names of topics that there may be."""
        self._admin = Admin(broker)
        self._port = broker.port
        self._namespace = namespace
        self._families = families
        self._consumers = 0

    def look(self) -> SeenNamespace:
        """All of it."""
        answer = self._admin.get(f"namespaces/{self._namespace}/policies/explain")
        if answer.status == 404:
            return SeenNamespace(False, {}, {name: self._nothing(name) for name in self._families})
        holds = _holds(answer.json)
        with Owners(self._port) as clients:
            families = {name: self._family(clients, name) for name in self._families}
        return SeenNamespace(True, holds, families)

    def _nothing(self, name: str) -> SeenFamily:
        return SeenFamily(None, {}, self._schemas(name), 0, {})

    def _family(self, clients: Owners, name: str) -> SeenFamily:
        path = f"persistent/{self._namespace}/{name}"
        answer = self._admin.get(f"{path}/partitions")
        listed = self._admin.get(f"persistent/{self._namespace}").json
        if answer.status == 404 or (not answer.json["partitions"] and _url(path) not in listed):
            assert not [one for one in listed if one.startswith(f"{_url(path)}-partition-")]
            return self._nothing(name)
        partitions: int = answer.json["partitions"]
        explained = self._admin.get(f"{path}/policies/explain")
        assert explained.status == 200, explained
        parts = {index: f"{path}-partition-{index}" for index in range(partitions)} or {-1: path}
        assert all(_url(part) in listed for part in parts.values()), listed
        logs = {index: self._log(clients.of(_url(part)), part) for index, part in parts.items()}
        producers = max(count_producers(clients, _url(part)) for part in parts.values())
        return SeenFamily(partitions, _holds(explained.json), self._schemas(name), producers, logs)

    def _schemas(self, name: str) -> dict[int, str]:
        answer = self._admin.get(f"schemas/{self._namespace}/{name}/schemas")
        assert answer.status == 200, answer
        return {one["version"]: one["data"] for one in answer.json["getSchemaResponses"]}

    def _log(self, client: RawClient, path: str) -> SeenLog:
        topic = _url(path)
        opened = client.produce(topic, producer_id=0)
        terminated = isinstance(opened, pb.CommandError) and opened.error == pb.TopicTerminatedError
        if not terminated:
            client.request(pb.CommandCloseProducer(producer_id=0, request_id=0))
        names = [n for n in self._admin.get(f"{path}/subscriptions").json if n != COMPACTION]
        return SeenLog(
            self._read(client, topic, READER, durable=False),
            self._read(client, topic, READER, durable=False, read_compacted=True),
            {name: self._read(client, topic, name) for name in names},
            terminated,
        )

    def _read(self, client: RawClient, topic: str, name: str, **fields: Any) -> list[int]:
        """The numbers of all that a new consumer gets, in order."""
        self._consumers += 1
        consumer = self._consumers
        answer = client.subscribe(topic, name, consumer_id=consumer, **fields)
        assert isinstance(answer, pb.CommandSuccess), f"{topic} {name}: {answer}"
        begin, end = _span(client, consumer, name != READER)
        numbers: list[int] = []
        if begin < end:
            client.flow(PERMITS, consumer)
            at = BEFORE_ALL
            while at < end:
                frame = client.await_frame(lambda frame: _is_of(frame, consumer))
                if frame.kind == Kind.PING:
                    client.send(pb.CommandPong())
                    # What nothing holds back may have been deleted since: then it does not come.
                    end = min(end, _span(client, consumer, name != READER)[1])
                else:
                    at = _place(frame.command.message_id)
                    numbers.append(parse_metadata(frame.entry)[0].sequence_id)
        client.request(pb.CommandCloseConsumer(consumer_id=consumer, request_id=0))
        return numbers


def _span(client: RawClient, consumer: int, durable: bool) -> tuple[Place, Place]:
    """The mark-delete position of a durable subscription, else `BEFORE_ALL`, and the topic's last
    message; both are `BEFORE_ALL` where there is no message."""
    last = client.request(pb.CommandGetLastMessageId(consumer_id=consumer, request_id=0))
    assert isinstance(last, pb.CommandGetLastMessageIdResponse), last
    end = _place(last.last_message_id)
    if end[1] < 0:
        return BEFORE_ALL, BEFORE_ALL
    known = durable and last.HasField("consumer_mark_delete_position")
    return _place(last.consumer_mark_delete_position) if known else BEFORE_ALL, end


def _is_of(frame: Received, consumer: int) -> bool:
    """A message for this consumer, or a PING."""
    return frame.kind == Kind.PING or (
        frame.kind == Kind.MESSAGE and frame.command.consumer_id == consumer
    )


def count_producers(clients: Owners, topic: str) -> int:
    """How many a topic takes, up to `MOST_PRODUCERS`."""
    client = clients.of(topic)
    opened = 0
    while opened < MOST_PRODUCERS:
        answer = client.produce(topic, producer_id=1 + opened)
        if isinstance(answer, pb.CommandError):
            break
        opened += 1
    for number in range(opened):
        client.request(pb.CommandCloseProducer(producer_id=1 + number, request_id=0))
    return opened


def _place(message: pb.MessageIdData) -> Place:
    found = MessageId.from_pb(message)
    return found.ledger, found.entry


def _url(path: str) -> str:
    return path.replace("persistent/", "persistent://", 1)


def _holds(explained: dict[str, dict[str, object]]) -> dict[str, tuple[object, str]]:
    found = {}
    for name in LOOKED_AT:
        value, origin = explained[name]["value"], explained[name]["origin"]
        if name == "retention":
            value = next(kind for kind, meant in RETENTIONS.items() if meant == value)
        found[name] = value, str(origin)
    return found
