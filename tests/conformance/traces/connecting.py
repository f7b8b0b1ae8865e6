"""CONNECT, PING, and what may not come before the handshake."""

from conformance.differences import Difference, differs
from conformance.trace import INDIVIDUAL, NAMESPACE, Trace, producer
from magnetar_proto import PulsarApi_pb2 as pb

FLAGS = Difference(
    "feature flags in CONNECTED",
    "deduplication of replicated messages, among others",
    "without that one: nothing is replicated",
)
SOMEWHERE = pb.MessageIdData(ledgerId=424242, entryId=0)


def _before_the_handshake(t: Trace, command: object) -> None:
    a = t.connects(version=None)
    a.sends_command(command)
    a.is_closed()


@differs(FLAGS)
def a_handshake(t: Trace) -> None:
    a = t.connects(version=None)
    a.sends_command(pb.CommandConnect(client_version="trace", protocol_version=21))
    a.awaits(pb.BaseCommand.CONNECTED)


@differs(FLAGS)
def an_old_client(t: Trace) -> None:
    a = t.connects(version=None)
    a.sends_command(pb.CommandConnect(client_version="trace", protocol_version=6))
    a.awaits(pb.BaseCommand.CONNECTED)


@differs(FLAGS)
def a_client_that_states_no_version(t: Trace) -> None:
    a = t.connects(version=None)
    a.sends_command(pb.CommandConnect(client_version="trace"))
    a.awaits(pb.BaseCommand.CONNECTED)


@differs(FLAGS)
def a_client_of_the_future(t: Trace) -> None:
    a = t.connects(version=None)
    a.sends_command(pb.CommandConnect(client_version="trace", protocol_version=99))
    a.awaits(pb.BaseCommand.CONNECTED)


@differs(FLAGS)
def credentials_without_a_challenge(t: Trace) -> None:
    a = t.connects(version=None)
    a.sends_command(
        pb.CommandConnect(
            client_version="trace",
            protocol_version=21,
            auth_method_name="token",
            auth_data=b"not a token",
        )
    )
    a.awaits(pb.BaseCommand.CONNECTED)


def a_second_handshake(t: Trace) -> None:
    a = t.connects()
    a.sends_command(pb.CommandConnect(client_version="trace", protocol_version=21))
    a.is_closed()


def pings_are_answered(t: Trace) -> None:
    a = t.connects()
    a.sends_command(pb.CommandPing())
    a.awaits(pb.BaseCommand.PONG)


def a_pong_without_a_ping(t: Trace) -> None:
    a = t.connects()
    a.sends_command(pb.CommandPong())
    a.receives_rest()


@differs(
    Difference(
        "PING before CONNECT",
        "answered",
        "the connection is closed, as with every other command",
    )
)
def a_ping_before_the_handshake(t: Trace) -> None:
    a = t.connects(version=None)
    a.sends_command(pb.CommandPing())
    a.awaits(pb.BaseCommand.PONG)


def a_producer_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, producer(t.topic))


def a_consumer_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(
        t,
        pb.CommandSubscribe(
            topic=t.topic, subscription="sub", subType="Exclusive", consumer_id=1, request_id=1
        ),
    )


def a_message_before_the_handshake(t: Trace) -> None:
    a = t.connects(version=None)
    a.sends(0)
    a.is_closed()


def permits_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandFlow(consumer_id=1, messagePermits=1))


def an_ack_before_the_handshake(t: Trace) -> None:
    ack = pb.CommandAck(consumer_id=1, ack_type=INDIVIDUAL, message_id=[SOMEWHERE], request_id=1)
    _before_the_handshake(t, ack)


def a_lookup_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandLookupTopic(topic=t.topic, request_id=1))


def partitions_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandPartitionedTopicMetadata(topic=t.topic, request_id=1))


def topics_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandGetTopicsOfNamespace(namespace=NAMESPACE, request_id=1))


def closing_a_producer_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandCloseProducer(producer_id=1, request_id=1))


def closing_a_consumer_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandCloseConsumer(consumer_id=1, request_id=1))


def a_seek_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandSeek(consumer_id=1, request_id=1, message_id=SOMEWHERE))


def unsubscribing_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandUnsubscribe(consumer_id=1, request_id=1))


def redelivery_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))


def the_last_message_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandGetLastMessageId(consumer_id=1, request_id=1))


def numbers_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandConsumerStats(consumer_id=1, request_id=1))


def a_schema_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandGetSchema(topic=t.topic, request_id=1))


def a_transaction_before_the_handshake(t: Trace) -> None:
    _before_the_handshake(t, pb.CommandNewTxn(request_id=1))


def a_watcher_before_the_handshake(t: Trace) -> None:
    watch = pb.CommandWatchTopicList(
        request_id=1, watcher_id=1, namespace=NAMESPACE, topics_pattern=".*"
    )
    _before_the_handshake(t, watch)


def an_answer_to_no_challenge(t: Trace) -> None:
    a = t.connects()
    a.sends_command(pb.CommandAuthResponse(protocol_version=21))
    a.is_closed()
