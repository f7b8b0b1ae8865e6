"""A session that forwards what other processes serve: to whom, how much, and who ends when."""

from typing import Any

from fakes.relayed import Pipe, RelayWorld
from fakes.sessions import Client, close_consumer, close_producer, produce, subscribe
from magnetar_broker.session.relay import MAX_UNANSWERED
from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.acks import encode_ack
from magnetar_proto.commands import encode
from magnetar_proto.deliveries import encode_flow
from magnetar_proto.names import TopicName
from raw_client import send_frame

PING, PONG = encode(pb.CommandPing()), encode(pb.CommandPong())


class Relayed:
    """A client of worker 0 with a producer and a consumer, both 1, of a topic of worker 1."""

    def __init__(self, **connect: Any) -> None:
        self.world = RelayWorld()
        self.topic = self.world.topic_of(1)
        self.client: Client = self.world.client(**connect)
        assert isinstance(self.client.ask(produce(1, topic=self.topic)), pb.CommandProducerSuccess)
        assert isinstance(self.client.ask(subscribe(2, topic=self.topic)), pb.CommandSuccess)

    @property
    def pipe(self) -> Pipe:
        return self.world.pipes[-1]

    def payloads(self) -> int:
        """Receives messages; how many."""
        return sum(isinstance(one, pb.CommandMessage) for one in self.client.received())


def ids(client: Client) -> tuple[list[int], list[int]]:
    """The producers and consumers that other processes have."""
    assert client.session.relay is not None
    return list(client.session.relay.producers), list(client.session.relay.consumers)


def test_what_is_served_here_is_not_relayed() -> None:
    world = RelayWorld()
    client = world.client()
    client.ask(produce(1, topic=world.topic_of(0)))
    client.send_bytes(send_frame(0, b"x"))
    (receipt,) = client.received()
    assert isinstance(receipt, pb.CommandSendReceipt)
    assert client.session.relay is None


def test_each_process_is_connected_to_once() -> None:
    world = RelayWorld()
    client = world.client()
    for number in range(12):
        client.ask(produce(number, number, topic=world.topic_of(number % 3, f"t{number}")))
    assert len(world.pipes) == 2
    assert len(ids(client)[0]) == 8


def test_messages_of_one_read_are_forwarded_as_one_piece() -> None:
    one = Relayed()
    other = one.world.topic_of(0)
    one.client.ask(produce(3, 2, topic=other))
    before = len(one.pipe.forwarded)
    sends = [send_frame(number, b"x", 1) for number in range(10)]
    own = [send_frame(number, b"x", 2) for number in range(2)]
    one.client.send_bytes(b"".join([*sends[:5], *own, *sends[5:]]))
    assert one.pipe.forwarded[before:] == [b"".join(sends[:5]), b"".join(sends[5:])]
    assert len(one.client.received()) == 12


def test_a_client_that_does_not_read_is_not_read_for() -> None:
    one = Relayed()
    one.client.send_bytes(encode_flow(1, 100))
    one.client.received()
    one.client.session.wrote(peer_full=True)
    assert not one.pipe.near_reads
    one.client.send_bytes(send_frame(0, b"x"))
    assert one.client.received() == []
    one.client.session.wrote(peer_full=False)
    assert one.payloads() == 1


def test_an_upstream_opened_while_the_client_does_not_read_is_not_read() -> None:
    one = Relayed()
    one.client.session.wrote(peer_full=True)
    one.client.send(produce(3, 2, topic=one.world.topic_of(2)))
    assert one.client.received() == []
    one.client.session.wrote(peer_full=False)
    assert len(one.client.received()) == 1


def test_a_process_that_does_not_read_stops_the_client() -> None:
    one = Relayed()
    one.pipe.far_reads = False
    one.client.send_bytes(send_frame(0, b"x"))
    assert not one.client.reading
    assert one.client.received() == []
    one.pipe.far_reads = True
    one.world.clock.soon(one.pipe.carry)
    assert len(one.client.received()) == 1
    assert one.client.reading


def test_requests_without_an_answer_are_limited() -> None:
    one = Relayed()
    asking = [
        encode(pb.CommandGetLastMessageId(consumer_id=1, request_id=100 + number))
        for number in range(MAX_UNANSWERED)
    ]
    one.client.send_bytes(b"".join(asking[:-1]))
    assert one.client.reading
    one.client.send_bytes(asking[-1])
    assert not one.client.reading
    assert len(one.client.received()) == MAX_UNANSWERED
    assert one.client.reading


def test_when_a_process_ends_its_clients_reconnect() -> None:
    one = Relayed()
    one.client.ask(produce(3, 2, topic=one.world.topic_of(0)))
    one.client.send(pb.CommandGetLastMessageId(consumer_id=1, request_id=4))
    one.client.send(produce(5, 3, topic=one.topic))
    one.client.send_bytes(encode_ack(1, 0, [(0, 0, ())], 6))
    one.pipe.break_off()
    answers = one.client.received()
    assert [(type(one), one.request_id) for one in answers[:3]] == [
        (pb.CommandError, 4),
        (pb.CommandError, 5),
        (pb.CommandError, 6),
    ]
    assert {one.error for one in answers[:3]} == {pb.ServiceNotReady}
    closed_producer, closed_consumer = answers[3:]
    assert isinstance(closed_producer, pb.CommandCloseProducer)
    assert isinstance(closed_consumer, pb.CommandCloseConsumer)
    assert (closed_producer.producer_id, closed_consumer.consumer_id) == (1, 1)
    assert ids(one.client) == ([], [])
    # What was under way is ignored, and the client can reconnect.
    one.client.send_bytes(send_frame(7, b"x") + encode_flow(1, 1))
    assert one.client.received() == []
    assert isinstance(one.client.ask(produce(8, topic=one.topic)), pb.CommandProducerSuccess)
    assert len(one.world.pipes) == 2
    one.client.send_bytes(send_frame(7, b"x"))
    assert isinstance(one.client.received()[0], pb.CommandSendReceipt)
    assert one.client.reading and not one.client.closed


def test_what_was_opened_elsewhere_meanwhile_outlives_a_process() -> None:
    world = RelayWorld()
    client, first, second = world.client(), world.topic_of(1), world.topic_of(2)
    client.send(produce(1, topic=first), close_producer(2))
    client.send(produce(3, topic=second))
    world.pipes[0].break_off()
    refused = [one.request_id for one in client.received() if isinstance(one, pb.CommandError)]
    assert sorted(refused) == [1, 2]
    client.send_bytes(send_frame(0, b"x"))
    assert isinstance(client.received()[0], pb.CommandSendReceipt)


def test_a_process_that_ends_while_it_does_not_read_lets_the_client_go_on() -> None:
    one = Relayed()
    one.pipe.far_reads = False
    one.client.send_bytes(send_frame(0, b"x"))
    assert not one.client.reading
    one.pipe.break_off()
    one.client.received()
    assert one.client.reading


def test_a_refused_connection_refuses_the_requests() -> None:
    world = RelayWorld()
    world.processes.workers[1].broker.ready = False
    client = world.client()
    error = client.ask(produce(1, topic=world.topic_of(1)))
    assert (error.request_id, error.error) == (1, pb.ServiceNotReady)
    assert "starting or stopping" in error.message
    assert ids(client) == ([], [])


def test_a_client_that_leaves_leaves_every_process() -> None:
    one = Relayed()
    one.client.send_bytes(send_frame(0, b"x"))
    one.client.session.lost()
    one.client.received()
    assert one.pipe.far.is_over
    world, name = one.world, TopicName.parse(one.topic)
    topic = world.do(world.processes.of(name).broker.topic(name, create=False))
    assert not list(topic.producers)
    one.world.clock.advance(100)
    assert one.client.received() == []


def test_what_comes_for_a_client_that_has_left_is_ignored() -> None:
    one = Relayed()
    one.client.send_bytes(encode_flow(1, 1))
    one.client.received()
    one.pipe.pause_reading()
    one.pipe.far.ping_if_read()
    one.pipe.far.close_producer(1)
    one.client.send_bytes(send_frame(0, b"x"))
    one.world.clock.pump()
    assert one.pipe.down
    relay = one.client.session.relay
    assert relay is not None
    one.pipe.near_reads = True
    one.client.session.lost()
    assert one.client.received() == []
    assert not one.pipe.down and not relay.pinged


def test_a_client_too_old_for_a_closure_is_disconnected_when_a_process_closes_more() -> None:
    one = Relayed(protocol_version=4)
    one.client.ask(produce(3, 2, topic=one.topic))
    far, relay = one.pipe.far, one.client.session.relay
    assert relay is not None
    far.close_producer(1)
    far.close_producer(2)
    far.close_consumer(1)
    far.ping_if_read()
    assert one.client.received() == []
    assert one.client.closed and far.is_over
    assert not relay.pinged, "nothing would remove it any more"


def test_a_client_too_old_for_a_closure_is_disconnected_when_a_process_ends() -> None:
    one = Relayed(protocol_version=4)
    one.client.ask(produce(3, 2, topic=one.topic))
    one.client.ask(produce(4, 3, topic=one.world.topic_of(2)))
    one.client.send(produce(5, 4, topic=one.world.topic_of(2)))
    one.world.pipes[0].break_off()
    one.client.received()
    assert one.client.closed and all(pipe.far.is_over for pipe in one.world.pipes)


def test_a_client_that_breaks_the_protocol_has_sent_what_came_before() -> None:
    one = Relayed()
    bad = encode_flow(1, 1).replace(b"\x08\x0b\x5a", b"\x08\x0b\x52")
    one.client.send_bytes(send_frame(0, b"x") + bad)
    assert one.client.closed
    assert one.pipe.forwarded[-1] == send_frame(0, b"x")


def test_a_sign_of_life_is_the_clients_own() -> None:
    one = Relayed()
    one.pipe.far.ping_if_read()
    (ping,) = one.client.received()
    assert isinstance(ping, pb.CommandPing)
    assert one.pipe.forwarded[-1] != PONG
    one.client.send(pb.CommandPing())
    assert one.pipe.forwarded[-1] == PONG
    forwarded = len(one.pipe.forwarded)
    one.client.send(pb.CommandPing())
    assert len(one.pipe.forwarded) == forwarded


def test_a_client_that_is_not_read_from_counts_as_alive() -> None:
    one = Relayed()
    resume = one.client.session.hold_reading()
    one.pipe.far.ping_if_read()
    assert one.client.received() == []
    assert one.pipe.forwarded[-1] == PONG
    resume()


def test_what_is_refused_is_nobodys() -> None:
    one = Relayed()
    refused = produce(3, 7, topic=one.topic, producer_access_mode=pb.Exclusive)
    assert isinstance(one.client.ask(refused), pb.CommandError)
    refused_too = subscribe(4, 7, topic=one.topic, subscription="")
    assert isinstance(one.client.ask(refused_too), pb.CommandError)
    assert ids(one.client) == ([1], [1])


def test_a_refusal_of_what_is_open_leaves_it_open() -> None:
    one = Relayed()
    waiting = produce(3, 7, topic=one.topic, producer_access_mode=pb.WaitForExclusive)
    one.client.ask(waiting)
    waiting.request_id = 4
    assert isinstance(one.client.ask(waiting), pb.CommandError)
    assert ids(one.client) == ([1, 7], [1])
    one.client.send(close_producer(5))
    assert {answer.request_id for answer in one.client.received()} == {3, 5}
    one.client.send_bytes(send_frame(0, b"x", 7))
    assert isinstance(one.client.received()[-1], pb.CommandSendReceipt)


def test_what_is_closed_is_nobodys() -> None:
    one = Relayed()
    one.client.ask(close_producer(3))
    one.client.ask(pb.CommandUnsubscribe(consumer_id=1, request_id=4))
    assert ids(one.client) == ([], [])
    one.client.ask(subscribe(5, topic=one.topic))
    one.client.ask(close_consumer(6))
    assert ids(one.client) == ([], [])


def test_what_the_process_closes_is_nobodys() -> None:
    one = Relayed()
    answers = one.client
    answers.send(pb.CommandSeek(consumer_id=1, request_id=3, message_publish_time=1))
    kinds = {type(answer) for answer in answers.received()}
    assert kinds == {pb.CommandCloseConsumer, pb.CommandSuccess}
    one.pipe.far.close_producer(1)
    (closed,) = answers.received()
    assert isinstance(closed, pb.CommandCloseProducer)
    assert ids(one.client) == ([], [])


def test_a_close_that_crosses_the_clients_own_is_not_forwarded() -> None:
    one = Relayed()
    one.pipe.far.close_producer(1)
    one.client.send(close_producer(3))
    (answer,) = one.client.received()
    assert isinstance(answer, pb.CommandSuccess)


def test_a_producer_that_waits_has_two_answers() -> None:
    world = RelayWorld()
    topic = world.topic_of(1)
    first, second = world.client(), world.client()
    first.ask(produce(1, topic=topic, producer_access_mode=pb.Exclusive))
    answer = second.ask(produce(9, topic=topic, producer_access_mode=pb.WaitForExclusive))
    assert not answer.producer_ready
    first.ask(close_producer(2))
    (answer,) = second.received()
    assert answer.producer_ready
    assert ids(second) == ([1], [])


def test_a_producer_that_waits_is_refused_when_its_process_ends() -> None:
    world = RelayWorld()
    topic = world.topic_of(1)
    first, second = world.client(), world.client()
    first.ask(produce(1, topic=topic, producer_access_mode=pb.Exclusive))
    second.ask(produce(9, topic=topic, producer_access_mode=pb.WaitForExclusive))
    world.pipes[1].break_off()
    (answer,) = second.received()
    assert (type(answer), answer.request_id) == (pb.CommandError, 9)


def test_an_id_that_is_here_stays_here() -> None:
    world = RelayWorld()
    client = world.client()
    client.ask(produce(1, topic=world.topic_of(0), producer_name="first"))
    again = client.ask(produce(2, topic=world.topic_of(1), producer_name="second"))
    assert again.producer_name == "first"
    assert client.session.relay is None


def test_a_name_that_is_invalid_is_refused_here() -> None:
    client = RelayWorld().client()
    assert client.ask(produce(1, topic="persistent://a/b")).error == pb.InvalidTopicName
    schema = pb.Schema(name="", type=pb.Schema.Type.String, schema_data=b"")
    answer = client.ask(pb.CommandGetOrCreateSchema(request_id=2, topic="a://b", schema=schema))
    assert answer.error_code == pb.InvalidTopicName
    assert client.session.relay is None


def test_a_client_that_breaks_the_protocol_elsewhere_is_disconnected() -> None:
    one = Relayed()
    one.client.ask(produce(3, 2, topic=one.world.topic_of(0)))
    one.client.send_bytes(encode_flow(1, 0))
    assert one.client.received() == []
    assert one.client.session.is_over
