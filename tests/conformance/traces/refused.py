"""Features that this broker does not have (yet), and commands for what was never open."""

from conformance.differences import Difference, differs
from conformance.trace import SHARED, Trace
from magnetar_proto import PulsarApi_pb2 as pb

STRING = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
SOMEWHERE = pb.MessageIdData(ledgerId=424242, entryId=0)
SETTINGS = {"transactionCoordinatorEnabled": "false"}


# Schemas ------------------------------------------------------------------------------------


def a_producer_of_bytes_as_a_schema(t: Trace) -> None:
    a = t.connects()
    a.produces(schema=pb.Schema(name="", type=pb.Schema.NoSchema, schema_data=b""))


def a_producer_with_a_schema(t: Trace) -> None:
    a = t.connects()
    a.produces(schema=STRING)


def a_consumer_with_a_schema(t: Trace) -> None:
    a = t.connects()
    a.subscribes(schema=STRING)


def a_consumer_that_takes_any_schema(t: Trace) -> None:
    a = t.connects()
    a.subscribes(schema=pb.Schema(name="", type=pb.Schema.AutoConsume, schema_data=b""))


def the_schema_of_a_topic_without_one(t: Trace) -> None:
    a = t.publisher()
    a.asks(pb.CommandGetSchema(request_id=0, topic=t.topic))


def the_schema_of_a_topic_that_is_not_there(t: Trace) -> None:
    a = t.connects()
    a.asks(pb.CommandGetSchema(request_id=0, topic=t.topic))


def a_version_of_a_schema_that_is_not_there(t: Trace) -> None:
    a = t.publisher()
    version = (0).to_bytes(8, "big")
    a.asks(pb.CommandGetSchema(request_id=0, topic=t.topic, schema_version=version))


def a_version_of_a_schema_without_a_number(t: Trace) -> None:
    a = t.publisher()
    a.asks(pb.CommandGetSchema(request_id=0, topic=t.topic, schema_version=b""))


def the_schema_of_what_is_no_name(t: Trace) -> None:
    a = t.connects()
    a.asks(pb.CommandGetSchema(request_id=0, topic="a/b"))


def registering_a_schema(t: Trace) -> None:
    a = t.publisher()
    a.asks(pb.CommandGetOrCreateSchema(request_id=0, topic=t.topic, schema=STRING))


def registering_no_schema(t: Trace) -> None:
    a = t.publisher()
    none = pb.Schema(name="Bytes", schema_data=b"", type=pb.Schema.NoSchema)
    a.asks(pb.CommandGetOrCreateSchema(request_id=0, topic=t.topic, schema=none))


def registering_a_schema_of_a_topic_that_is_not_there(t: Trace) -> None:
    a = t.connects()
    a.asks(pb.CommandGetOrCreateSchema(request_id=0, topic=t.topic, schema=STRING))


# Transactions -------------------------------------------------------------------------------


def connecting_to_a_coordinator(t: Trace) -> None:
    t.connects().asks(pb.CommandTcClientConnectRequest(request_id=0, tc_id=0))


def beginning_a_transaction(t: Trace) -> None:
    t.connects().asks(pb.CommandNewTxn(request_id=0, txn_ttl_millis=60_000))


def adding_a_partition_to_a_transaction(t: Trace) -> None:
    t.connects().asks(
        pb.CommandAddPartitionToTxn(
            request_id=0, txnid_least_bits=1, txnid_most_bits=0, partitions=[t.topic]
        )
    )


def adding_a_subscription_to_a_transaction(t: Trace) -> None:
    joined = pb.Subscription(topic=t.topic, subscription="sub")
    t.connects().asks(
        pb.CommandAddSubscriptionToTxn(
            request_id=0, txnid_least_bits=1, txnid_most_bits=0, subscription=[joined]
        )
    )


def ending_a_transaction(t: Trace) -> None:
    t.connects().asks(
        pb.CommandEndTxn(request_id=0, txnid_least_bits=1, txnid_most_bits=0, txn_action=pb.COMMIT)
    )


def a_message_of_a_transaction(t: Trace) -> None:
    a = t.publisher()
    a.sends(0, txnid_least_bits=1, txnid_most_bits=1)
    a.awaits_outcome()


def an_ack_in_a_transaction(t: Trace) -> None:
    a = t.connects()
    a.subscribes()
    a.asks(
        pb.CommandAck(
            consumer_id=1, ack_type="Individual", message_id=[SOMEWHERE],
            txnid_least_bits=1, txnid_most_bits=0,
        )
    )  # fmt: skip


# Watchers -----------------------------------------------------------------------------------


def a_topic_list_watcher(t: Trace) -> None:
    namespace = t.has_namespace()
    a = t.connects()
    watch = pb.CommandWatchTopicList(
        request_id=0, watcher_id=1, namespace=namespace, topics_pattern=f"{namespace}/w.*"
    )
    a.asks(watch)


def closing_a_watcher_that_never_was(t: Trace) -> None:
    t.connects().asks(pb.CommandWatchTopicListClose(request_id=0, watcher_id=7))


# What was never open --------------------------------------------------------------------------


def closing_a_consumer_that_never_was(t: Trace) -> None:
    t.connects().closes_consumer(9)


def unsubscribing_a_consumer_that_never_was(t: Trace) -> None:
    t.connects().asks(pb.CommandUnsubscribe(request_id=0, consumer_id=9))


def a_seek_of_a_consumer_that_never_was(t: Trace) -> None:
    t.connects().asks(pb.CommandSeek(request_id=0, consumer_id=9, message_id=SOMEWHERE))


def the_last_message_of_a_consumer_that_never_was(t: Trace) -> None:
    t.connects().asks(pb.CommandGetLastMessageId(request_id=0, consumer_id=9))


@differs(
    Difference(
        "CONSUMER_STATS of a consumer that never existed",
        "the connection is closed",
        "ConsumerNotFound",
    )
)
def the_numbers_of_a_consumer_that_never_was(t: Trace) -> None:
    t.connects().asks(pb.CommandConsumerStats(request_id=0, consumer_id=9))


def permits_of_a_consumer_that_never_was(t: Trace) -> None:
    a = t.connects()
    a.permits(10, consumer_id=9)
    a.receives_rest()


def redelivery_to_a_consumer_that_never_was(t: Trace) -> None:
    a = t.connects()
    a.sends_command(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=9))
    a.receives_rest()


def an_ack_of_a_consumer_that_never_was(t: Trace) -> None:
    a = t.connects()
    a.sends_command(
        pb.CommandAck(consumer_id=9, ack_type="Individual", message_id=[SOMEWHERE], request_id=1)
    )
    a.receives_rest()


# Subscriptions that cannot be -----------------------------------------------------------------


def subscriptions_without_a_proper_name(t: Trace) -> None:
    a = t.connects()
    for name in ("", "pulsar.repl.x", "pulsar.dedup"):
        a.subscribes(subscription=name)


def a_compacted_view_of_a_shared_subscription(t: Trace) -> None:
    t.connects().subscribes(SHARED, read_compacted=True)


def too_much_metadata_of_a_consumer(t: Trace) -> None:
    t.connects().subscribes(metadata=[pb.KeyValue(key="k", value="v" * 1024)])


def a_topic_that_may_not_be_created(t: Trace) -> None:
    t.connects().subscribes(force_topic_creation=False)
