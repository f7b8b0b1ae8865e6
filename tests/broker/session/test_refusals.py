"""Every request that a broker refuses: the code that clients know, and a text that helps."""

from collections.abc import Callable

import pytest

from fakes.waiting import within_limit
from magnetar_proto import PulsarApi_pb2 as pb
from raw_client import Closed, Kind, RawClient, closes, refused
from running_broker import RunningBroker

SubType = pb.CommandSubscribe


# Names ----------------------------------------------------------------------------------------

BAD_NAMES = ["", "persistent://a/b", "a/b/c/d", "ftp://a/b/c", "persistent://t/n/", "pers://a/b/c"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_what_is_no_topic_name(raw: RawClient, name: str) -> None:
    refused(raw.produce(name), pb.InvalidTopicName)
    refused(raw.subscribe(name), pb.InvalidTopicName)
    partitions = raw.request(pb.CommandPartitionedTopicMetadata(topic=name, request_id=0))
    assert (partitions.response, partitions.error) == (partitions.Failed, pb.InvalidTopicName)
    lookup = raw.request(pb.CommandLookupTopic(topic=name, request_id=0))
    assert (lookup.response, lookup.error) == (lookup.Failed, pb.InvalidTopicName)
    raw.ping()


@pytest.mark.parametrize("name", ["", "pulsar.repl.x", "pulsar.dedup"])
def test_what_is_no_subscription_name(raw: RawClient, topic: str, name: str) -> None:
    refused(raw.subscribe(topic, name), pb.ProducerBusy, "name")
    assert isinstance(raw.subscribe(topic, "fine"), pb.CommandSuccess)


def test_a_namespace_that_may_not_be_created(make_broker: Callable[..., RunningBroker]) -> None:
    topic = "persistent://public/missing/t"
    with RawClient(make_broker(magnetarAllowAutoNamespaceCreation="false").port) as raw:
        refused(raw.produce(topic), pb.TopicNotFound, "public/missing")
        lookup = raw.request(pb.CommandLookupTopic(topic=topic, request_id=0))
        assert (lookup.response, lookup.error) == (lookup.Failed, pb.TopicNotFound)
        partitions = raw.request(pb.CommandPartitionedTopicMetadata(topic=topic, request_id=0))
        assert (partitions.response, partitions.error) == (partitions.Failed, pb.TopicNotFound)


def test_a_partition_of_no_partitioned_topic(raw: RawClient, topic: str) -> None:
    refused(raw.produce(f"{topic}-partition-0"), pb.NotAllowedError, "partition")


def test_topics_that_may_not_be_created(make_broker: Callable[..., RunningBroker]) -> None:
    with RawClient(make_broker(allowAutoTopicCreation="false").port) as raw:
        refused(raw.produce("t"), pb.TopicNotFound)
        refused(raw.subscribe("t"), pb.TopicNotFound)
        found = raw.request(pb.CommandPartitionedTopicMetadata(topic="t", request_id=0))
        assert (found.response, found.error) == (found.Failed, pb.TopicNotFound)


def test_a_client_may_ask_that_nothing_is_created(raw: RawClient, topic: str) -> None:
    refused(raw.subscribe(topic, force_topic_creation=False), pb.TopicNotFound)
    found = raw.request(
        pb.CommandPartitionedTopicMetadata(
            topic=topic, request_id=0, metadata_auto_creation_enabled=False
        )
    )
    assert (found.response, found.error) == (found.Failed, pb.TopicNotFound)


def test_subscriptions_that_may_not_be_created(make_broker: Callable[..., RunningBroker]) -> None:
    with RawClient(make_broker(allowAutoSubscriptionCreation="false").port) as raw:
        refused(raw.subscribe("t"), pb.SubscriptionNotFound)
        answer = raw.produce("t", initial_subscription_name="sub")
        refused(answer, pb.NotAllowedError, "allowAutoSubscriptionCreation")
        assert isinstance(raw.subscribe("t", "reader", durable=False), pb.CommandSuccess)


# Features that are off ------------------------------------------------------------------------


def test_key_shared_that_is_switched_off(make_broker: Callable[..., RunningBroker]) -> None:
    with RawClient(make_broker(subscriptionKeySharedEnable="false").port) as raw:
        refused(raw.subscribe("t", "sub", SubType.Key_Shared), pb.NotAllowedError, "Key_Shared")
        assert isinstance(raw.subscribe("t", "sub", SubType.Shared), pb.CommandSuccess)


def test_a_subscription_type_that_is_switched_off(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(subscriptionTypesEnabled="Exclusive")
    with RawClient(broker.port) as raw:
        refused(raw.subscribe("t", "sub", SubType.Shared), pb.NotAllowedError, "Shared")


def test_compacted_reading_of_a_shared_subscription(raw: RawClient, topic: str) -> None:
    answer = raw.subscribe(topic, "sub", SubType.Shared, read_compacted=True)
    refused(answer, pb.NotAllowedError, "read_compacted")


TRANSACTIONS = [
    pb.CommandTcClientConnectRequest(request_id=0, tc_id=0),
    pb.CommandNewTxn(request_id=0),
    pb.CommandAddPartitionToTxn(request_id=0),
    pb.CommandAddSubscriptionToTxn(request_id=0),
    pb.CommandEndTxn(request_id=0),
]
"""All that clients send."""


def test_transactions_where_they_are_off(make_broker: Callable[..., RunningBroker]) -> None:
    ack = pb.CommandAck(
        consumer_id=1,
        ack_type=pb.CommandAck.Individual,
        message_id=[pb.MessageIdData(ledgerId=1, entryId=1)],
        txnid_least_bits=1,
        txnid_most_bits=1,
    )
    with RawClient(make_broker(transactionCoordinatorEnabled="false").port) as raw:
        for command in TRANSACTIONS:
            refused(raw.request(command), pb.NotAllowedError, "transactions")
        raw.subscribe("topic")
        answer = raw.request(ack)
        assert answer.error == pb.NotAllowedError and "transactions" in answer.message


def test_topic_list_watchers_where_they_are_off(make_broker: Callable[..., RunningBroker]) -> None:
    watch = pb.CommandWatchTopicList(
        request_id=0, watcher_id=1, namespace="public/default", topics_pattern="public/default/.*"
    )
    with RawClient(make_broker(enableBrokerTopicListWatcher="false").port) as raw:
        assert not raw.connected.feature_flags.supports_topic_watchers
        refused(raw.request(watch), pb.NotAllowedError, "watchers")
        close = pb.CommandWatchTopicListClose(request_id=0, watcher_id=1)
        assert isinstance(raw.request(close), pb.CommandSuccess)


# The connection -------------------------------------------------------------------------------


def test_the_handshake_lists_the_features_of_the_broker(broker: RunningBroker) -> None:
    with RawClient(broker.port, version=15) as raw:
        assert raw.connected.protocol_version == 15
        assert raw.connected.max_message_size == 5 * 1024 * 1024
        flags = raw.connected.feature_flags
        assert flags.supports_get_partitioned_metadata_without_auto_creation
        assert flags.supports_topic_watchers and flags.supports_topic_watcher_reconcile


def test_a_newer_client_is_answered_with_our_version(broker: RunningBroker) -> None:
    with RawClient(broker.port, version=99) as raw:
        assert raw.connected.protocol_version == 21


def test_a_second_handshake(raw: RawClient) -> None:
    raw.send(pb.CommandConnect(client_version="raw", protocol_version=21))
    closes(raw)


def test_a_silent_client_is_pinged_and_then_given_up(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(keepAliveIntervalSeconds="1")
    with within_limit(lambda: RawClient(broker.port), Closed) as silent:
        assert [frame.kind for frame in silent.await_close()] == [Kind.PING]

    def answer() -> None:
        with RawClient(broker.port) as answering:
            for _ in range(3):
                answering.expect_ping()

    within_limit(answer, Closed)


def test_a_connection_without_a_handshake_is_given_up(
    make_broker: Callable[..., RunningBroker],
) -> None:
    broker = make_broker(keepAliveIntervalSeconds="1")
    with RawClient(broker.port, handshake=False) as silent:
        assert silent.await_close() == []


def test_a_connection_that_was_closed_is_closed(raw: RawClient) -> None:
    raw.finish_sending()
    with pytest.raises(Closed):
        raw.receive()
