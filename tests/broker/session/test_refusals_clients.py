"""What producers and consumers may not do, and what becomes of those that do it."""

from collections.abc import Callable
from typing import Any

import pytest

from magnetar_proto import PulsarApi_pb2 as pb
from magnetar_proto.entries import encode_entry
from raw_client import (
    Kind,
    RawClient,
    closes,
    metadata,
    refused,
    send_error,
    send_frame,
    send_frame_of,
)
from running_broker import RunningBroker

SubType = pb.CommandSubscribe
NOWHERE = 424_242


# Producers ------------------------------------------------------------------------------------


def test_a_producer_name_that_is_taken(broker: RunningBroker, raw: RawClient, topic: str) -> None:
    assert raw.produce(topic, producer_name="me").producer_name == "me"
    with RawClient(broker.port) as other:
        request = other.next_request()
        other.send(
            pb.CommandProducer(topic=topic, producer_id=1, request_id=request, producer_name="me")
        )
        raw.expect_ping()
        refused(other.answer_to(request), pb.ProducerBusy, "me")
    refused(raw.produce(topic, producer_id=2, producer_name="me"), pb.ProducerBusy, "me")


def test_the_same_producer_again(raw: RawClient, topic: str) -> None:
    first = raw.produce(topic, producer_name="me")
    again = raw.produce(topic, producer_name="me")
    assert again.producer_name == first.producer_name and again.last_sequence_id == -1


def test_a_newer_epoch_of_the_same_producer_replaces_it(raw: RawClient, topic: str) -> None:
    raw.produce(topic, producer_name="me", epoch=0)
    assert isinstance(raw.produce(topic, producer_name="me", epoch=1), pb.CommandProducerSuccess)
    raw.publish(0, b"x")


def test_a_producer_whose_client_is_dead_gives_up_its_name(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(connectionLivenessCheckTimeoutMillis="200")
    with RawClient(broker.port) as dead, RawClient(broker.port) as other:
        dead.produce("t", producer_name="me")
        assert isinstance(other.produce("t", producer_name="me"), pb.CommandProducerSuccess)
        other.publish(0, b"x")


def test_a_send_of_a_producer_that_is_not_open(raw: RawClient) -> None:
    raw.send_bytes(send_frame(0, b"x", producer_id=99))
    closes(raw)


def test_a_send_after_its_producer_was_closed(raw: RawClient, topic: str) -> None:
    raw.produce(topic)
    assert isinstance(
        raw.request(pb.CommandCloseProducer(producer_id=1, request_id=0)), pb.CommandSuccess
    )
    raw.send_bytes(send_frame(0, b"x"))
    closes(raw)


def test_closing_what_is_not_open_is_a_success(raw: RawClient) -> None:
    for command in (
        pb.CommandCloseProducer(producer_id=9, request_id=0),
        pb.CommandCloseConsumer(consumer_id=9, request_id=0),
    ):
        assert isinstance(raw.request(command), pb.CommandSuccess)


def test_a_wrong_checksum(raw: RawClient, topic: str) -> None:
    raw.produce(topic)
    entry = bytearray(encode_entry(metadata(5), b"payload"))
    entry[-1] ^= 1
    error = send_error(raw, send_frame_of(bytes(entry), 5))
    assert (error.error, error.sequence_id) == (pb.ChecksumError, 5)
    raw.publish(6, b"right")


def test_a_highest_sequence_id_below_the_lowest_is_none(raw: RawClient, topic: str) -> None:
    raw.produce(topic)
    raw.send_bytes(send_frame(7, b"x", highest_sequence_id=3))
    receipt = raw.expect(pb.BaseCommand.SEND_RECEIPT)
    assert (receipt.sequence_id, receipt.highest_sequence_id) == (7, 0)


def test_messages_around_a_refused_one_are_stored(raw: RawClient, topic: str) -> None:
    raw.produce(topic)
    good, bad = encode_entry(metadata(1), b"good"), b"\x0e\x01\x00\x00\x00\x00" + b"\x00" * 20
    frames = (send_frame_of(good, 1), send_frame_of(bad, 2), send_frame_of(good, 3))
    raw.send_bytes(b"".join(frames))
    assert raw.expect(Kind.SEND_RECEIPT).sequence_id == 1
    assert raw.expect(Kind.SEND_ERROR).sequence_id == 2
    assert raw.expect(Kind.SEND_RECEIPT).sequence_id == 3


# Consumers ------------------------------------------------------------------------------------


def test_an_exclusive_subscription_that_is_held(
    broker: RunningBroker, raw: RawClient, topic: str
) -> None:
    raw.subscribe(topic)
    refused(raw.subscribe(topic, consumer_id=2), pb.ConsumerBusy, "Exclusive")
    with RawClient(broker.port) as other:
        request = other.next_request()
        other.send(
            pb.CommandSubscribe(
                topic=topic,
                subscription="sub",
                subType=SubType.Exclusive,
                consumer_id=1,
                request_id=request,
            )
        )
        raw.expect_ping()
        refused(other.answer_to(request), pb.ConsumerBusy, "Exclusive")


def test_an_exclusive_consumer_whose_client_is_dead_is_replaced(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(connectionLivenessCheckTimeoutMillis="200")
    with RawClient(broker.port) as dead, RawClient(broker.port) as other:
        dead.subscribe("t")
        assert isinstance(other.subscribe("t"), pb.CommandSuccess)
        other.flow(1)
        other.produce("t")
        other.publish(0, b"x")
        other.next_message()


def test_a_subscription_of_another_type(raw: RawClient, topic: str) -> None:
    raw.subscribe(topic, "sub", SubType.Shared)
    answer = raw.subscribe(topic, "sub", SubType.Failover, consumer_id=2)
    refused(answer, pb.ConsumerBusy, "Shared")


def test_the_same_consumer_again(raw: RawClient, topic: str) -> None:
    assert isinstance(raw.subscribe(topic), pb.CommandSuccess)
    assert isinstance(raw.subscribe(topic), pb.CommandSuccess)


def test_a_durable_name_for_a_reader(raw: RawClient, topic: str) -> None:
    raw.subscribe(topic, "sub", SubType.Shared)
    answer = raw.subscribe(topic, "sub", SubType.Shared, consumer_id=2, durable=False)
    refused(answer, pb.NotAllowedError, "durable")


def test_too_much_metadata_of_a_consumer(raw: RawClient, topic: str) -> None:
    pair = pb.KeyValue(key="k", value="v" * 1024)
    refused(raw.subscribe(topic, metadata=[pair]), pb.MetadataError, "maxConsumerMetadataSize")


def test_flow_of_nothing(raw: RawClient, topic: str) -> None:
    raw.subscribe(topic)
    raw.flow(0)
    closes(raw)


def test_flow_acks_and_redelivery_of_a_consumer_that_is_not_open_are_ignored(
    raw: RawClient,
) -> None:
    raw.flow(5, NOWHERE)
    ack = pb.CommandAck(consumer_id=NOWHERE, ack_type=pb.CommandAck.Individual, request_id=77)
    raw.send(ack)
    raw.send(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=NOWHERE))
    raw.ping()


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandSeek(consumer_id=NOWHERE, request_id=0, message_publish_time=1),
        pb.CommandUnsubscribe(consumer_id=NOWHERE, request_id=0),
        pb.CommandGetLastMessageId(consumer_id=NOWHERE, request_id=0),
    ],
    ids=lambda command: type(command).__name__,
)
def test_requests_of_a_consumer_that_is_not_open(raw: RawClient, command: Any) -> None:
    refused(raw.request(command), pb.MetadataError, str(NOWHERE))


def test_numbers_of_a_consumer_that_is_not_open(raw: RawClient) -> None:
    answer = raw.request(pb.CommandConsumerStats(consumer_id=NOWHERE, request_id=0))
    assert answer.error_code == pb.ConsumerNotFound and str(NOWHERE) in answer.error_message


def test_a_seek_to_nowhere(raw: RawClient, topic: str) -> None:
    raw.subscribe(topic)
    refused(raw.request(pb.CommandSeek(consumer_id=1, request_id=0)), pb.MetadataError)


def test_a_seek_disconnects_before_it_succeeds(raw: RawClient, topic: str) -> None:
    raw.subscribe(topic)
    seek = pb.CommandSeek(consumer_id=1, request_id=0, message_publish_time=1)
    assert isinstance(raw.request(seek), pb.CommandSuccess)
    assert raw.expect(Kind.CLOSE_CONSUMER).consumer_id == 1


def test_unsubscribing_while_others_are_connected(raw: RawClient, topic: str) -> None:
    raw.subscribe(topic, "sub", SubType.Shared, consumer_id=1)
    raw.subscribe(topic, "sub", SubType.Shared, consumer_id=2)
    answer = raw.request(pb.CommandUnsubscribe(consumer_id=1, request_id=0))
    refused(answer, pb.MetadataError, "other consumers")
    forced = raw.request(pb.CommandUnsubscribe(consumer_id=1, request_id=0, force=True))
    assert isinstance(forced, pb.CommandSuccess)
    assert raw.expect(Kind.CLOSE_CONSUMER).consumer_id == 2


def test_the_last_message_of_an_empty_topic(raw: RawClient, topic: str) -> None:
    raw.subscribe(topic)
    last = raw.request(pb.CommandGetLastMessageId(consumer_id=1, request_id=0)).last_message_id
    assert (last.ledgerId, last.entryId, last.batch_index) == (2**64 - 1, 2**64 - 1, -1)


def test_a_volatile_topic_has_no_last_message_and_seeks_nowhere(raw: RawClient, topic: str) -> None:
    raw.subscribe(topic.replace("persistent://", "non-persistent://"))
    refused(raw.request(pb.CommandGetLastMessageId(consumer_id=1, request_id=0)), pb.UnknownError)
    seek = pb.CommandSeek(consumer_id=1, request_id=0, message_publish_time=1)
    assert isinstance(raw.request(seek), pb.CommandSuccess)


def test_compacted_reading_of_a_volatile_topic(raw: RawClient, topic: str) -> None:
    volatile = topic.replace("persistent://", "non-persistent://")
    refused(raw.subscribe(volatile, read_compacted=True), pb.NotAllowedError)


def test_an_old_client_is_notified_of_a_seek_by_a_closed_connection(
    broker: RunningBroker, topic: str
) -> None:
    with RawClient(broker.port, version=4) as old:
        old.subscribe(topic)
        old.send(pb.CommandSeek(consumer_id=1, request_id=9, message_publish_time=1))
        closes(old)


def test_a_batch_index_ack_when_those_are_switched_off(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(acknowledgmentAtBatchIndexLevelEnabled="false")
    with RawClient(broker.port) as raw:
        raw.produce("t")
        raw.subscribe("t", "sub", SubType.Shared)
        place = raw.publish(0, b"x")
        assert not raw.ack([(place.ledgerId, place.entryId, [1])]).HasField("error")
        raw.flow(1)
        raw.next_message()
