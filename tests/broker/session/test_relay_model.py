"""A client of several processes gets what it gets of one, whatever it does with their topics."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.relayed import RelayWorld
from fakes.sessions import (
    Client,
    SessionWorld,
    close_consumer,
    close_producer,
    produce,
    subscribe,
)
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.commands import NO_REQUEST, encode
from magnetar_proto.deliveries import encode_flow
from raw_client import send_frame

TOPICS = 3
IDS = 2 * TOPICS
"""Producers, and consumers, of the client: each has one topic, and each topic two of them."""

Operation = tuple[str, int, int]
FIRST = pb.MessageIdData(ledgerId=0, entryId=0)
TEXT = pb.Schema(name="", type=pb.Schema.Type.String, schema_data=b"")
REQUESTS: dict[str, Callable[[str, int, int], Any]] = {
    "produce": lambda topic, number, extent: produce(
        0, number, topic=topic, producer_name=f"p{extent}"
    ),
    "close_producer": lambda topic, number, extent: close_producer(0, number),
    "subscribe": lambda topic, number, extent: subscribe(
        0, number, topic=topic, subscription=f"s{number % extent}"
    ),
    "seek": lambda topic, number, extent: pb.CommandSeek(consumer_id=number, message_id=FIRST),
    "unsubscribe": lambda topic, number, extent: pb.CommandUnsubscribe(consumer_id=number),
    "last": lambda topic, number, extent: pb.CommandGetLastMessageId(consumer_id=number),
    "stats": lambda topic, number, extent: pb.CommandConsumerStats(consumer_id=number),
    "close_consumer": lambda topic, number, extent: close_consumer(0, number),
    "schema": lambda topic, number, extent: pb.CommandGetOrCreateSchema(topic=topic, schema=TEXT),
    "partitions": lambda topic, number, extent: pb.CommandPartitionedTopicMetadata(topic=topic),
}
OPERATIONS = (*REQUESTS, "send", "send", "flow", "flow", "ack", "ack_all", "redeliver")
OPENING = ("produce", "subscribe", "close_producer", "close_consumer", "unsubscribe", "seek")
operations = st.lists(
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, IDS - 1), st.integers(1, 3)),
        min_size=1,
        max_size=5,
        # Of requests under way for one topic any may be carried out first.
        unique_by=(lambda one: one[1], lambda one: one[1] % TOPICS if one[0] in OPENING else one),
    ),
    max_size=25,
)


class Driven:
    """A client, and what it got, by the producer, consumer or request it is for."""

    def __init__(self, world: SessionWorld, topics: Sequence[str]) -> None:
        self.world = world
        self.client: Client = world.client()
        self.got: dict[tuple[str, int], list[Any]] = defaultdict(list)
        self._topics = topics
        self._request = 0
        self._sequences: dict[int, int] = defaultdict(int)
        self._producing: set[int] = set()
        self._seen: dict[int, list[pb.MessageIdData]] = defaultdict(list)
        self._opens: dict[int, int] = {}
        self._pinged = False

    def do(self, together: Sequence[Operation]) -> None:
        """Do these, which arrive together, and take all answers."""
        self.client.send_bytes(b"".join(self._frames(*one) for one in together))
        for answer in self.client.received():
            self._take(answer)
        while self._pinged:
            self._pinged = False
            self.client.send(pb.CommandPong())
            for answer in self.client.received():
                self._take(answer)

    def _frames(self, what: str, number: int, extent: int) -> bytes:
        self._request += 1
        if what == "send":
            return self._sends(number, extent)
        if what == "flow":
            return encode_flow(number, extent)
        if what == "redeliver":
            return encode(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=number))
        if what.startswith("ack"):
            return self._ack(what == "ack_all", number, extent)
        made: Any = REQUESTS[what](self._topics[number % TOPICS], number, extent)
        made.request_id = self._request
        if what == "produce":
            self._opens[self._request] = number
        elif what == "close_producer":
            self._producing.discard(number)
        return encode(made)

    def _sends(self, number: int, count: int) -> bytes:
        if number not in self._producing:
            return b""
        first = self._sequences[number]
        self._sequences[number] += count
        return b"".join(send_frame(first + at, b"%d" % at, number) for at in range(count))

    def _ack(self, cumulative: bool, number: int, back: int) -> bytes:
        if not self._seen[number]:
            return b""
        last = self._seen[number][-back:][0]
        return encode_ack(number, cumulative, [(last.ledgerId, last.entryId, ())], self._request)

    def _take(self, answer: Any) -> None:
        match answer:
            case pb.CommandProducerSuccess(request_id=request):
                self._producing.add(self._opens[request])
            case pb.CommandCloseProducer(producer_id=number):
                self._producing.discard(number)
            case pb.CommandPing():
                self._pinged = True
                return
            case pb.CommandMessage(consumer_id=number):
                self._seen[number].append(answer.message_id)
        ids = ("request_id", "producer_id", "consumer_id")
        # A close that the broker begins answers no request; those of two topics have no order.
        field = next(one for one in ids if getattr(answer, one, NO_REQUEST) != NO_REQUEST)
        self.got[field, getattr(answer, field)].append(self._shown(answer))

    def _shown(self, answer: Any) -> str:
        """Without what may differ: the numbers of ledgers, and the addresses of clients."""
        shown = type(answer)()
        shown.CopyFrom(answer)
        for field, value in answer.ListFields():
            if isinstance(value, pb.MessageIdData):
                getattr(shown, field.name).ledgerId = 0 if value.ledgerId < 1 << 63 else 1
            elif field.name in ("address", "connectedSince", "producer_name"):
                shown.ClearField(field.name)
        return f"{type(answer).__name__} {shown}".replace(self.client.address, "")


def compare(steps: Sequence[Sequence[Operation]], chunk: int = 1 << 20) -> None:
    several = RelayWorld(TOPICS, chunk)
    topics = [several.topic_of(worker) for worker in range(TOPICS)]
    one, other = Driven(SessionWorld(), topics), Driven(several, topics)
    for together in steps:
        one.do(together)
        other.do(together)
        assert other.got == one.got
        assert other.client.closed == one.client.closed is False
        assert other.client.reading == one.client.reading is True


@settings(max_examples=examples(1000), deadline=None)
@given(operations)
def test_several_processes_are_as_one_to_a_client(steps: list[list[Operation]]) -> None:
    compare(steps)


@settings(max_examples=examples(100), deadline=None)
@given(operations)
def test_however_the_bytes_are_cut(steps: list[list[Operation]]) -> None:
    compare(steps, chunk=7)


MIXED = st.tuples(
    st.sampled_from([*REQUESTS, "send", "flow", "end"]),
    st.integers(0, TOPICS - 1),
    st.integers(0, 2),
    st.integers(1, 3),
)


def mixed(
    world: RelayWorld, request: int, what: str, topic: int, number: int, extent: int
) -> bytes:
    """A command whose id may be in use for another topic; or one upstream breaks."""
    match what:
        case "send":
            return send_frame(request, b"x", number)
        case "flow":
            return encode_flow(number, extent)
        case "end":
            for pipe in world.pipes[-1:]:
                pipe.break_off()
            return b""
        case _:
            made = REQUESTS[what](world.topic_of(topic), number, extent)
            made.request_id = request
            return encode(made)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.lists(MIXED, max_size=5), max_size=20))
def test_a_client_that_mixes_up_its_ids_leaves_nothing_behind(
    steps: list[list[tuple[str, int, int, int]]],
) -> None:
    world = RelayWorld(TOPICS)
    client, requests = world.client(), count()
    for together in steps:
        client.send_bytes(b"".join(mixed(world, next(requests), *one) for one in together))
        world.clock.pump()
    assert client.reading or client.closed
    client.session.lost()
    world.clock.pump()
    assert all(pipe.far.is_over for pipe in world.pipes)
    for topic in (one for process in world.processes.workers for one in process.broker.topics):
        assert not [*topic.producers, *topic.producers.waiting]
        assert not any(one.consumers for one in topic.subscriptions.values())


def test_seeks_of_two_topics_close_their_consumers_in_any_order() -> None:
    compare([[("subscribe", 0, 1), ("subscribe", 2, 1)], [("seek", 2, 1), ("seek", 0, 1)]])
