"""Delivery of messages to consumers."""

from magnetar_broker.config.domains import COUNT, FLAG, SubscriptionType
from magnetar_broker.config.sections.section import section, setting
from magnetar_broker.config.values import Choices, Integer, Share


@section("Delayed delivery")
class DelayedDelivery:
    """Delayed delivery."""

    delayed_delivery_enabled: bool = setting(
        FLAG,
        "Deliver messages at the delivery time that their producer has set. If false, they "
        "are delivered at once.",
        default=True,
        dynamic=True,
    )
    delayed_delivery_tick_time_millis: int = setting(
        Integer(1),
        "Precision of delivery times: how much later a message can come or, if "
        "isDelayedDeliveryDeliverAtTimeStrict is false, how much earlier.",
        default=1000,
        unit="ms",
        dynamic=True,
    )
    is_delayed_delivery_deliver_at_time_strict: bool = setting(
        FLAG,
        "Never deliver a message before its delivery time, but up to a tick after it. If "
        "false, messages are delivered up to a tick early instead.",
        default=True,
        pulsar="false",
        of_workers=True,
    )
    delayed_delivery_max_delay_in_millis: int = setting(
        COUNT,
        "A message with a longer delay is refused; 0 means no limit.",
        default=0,
        unit="ms",
        dynamic=True,
    )


@section("Subscriptions and dispatch")
class Subscriptions:
    """Limits of consumers, and the distribution of messages among them."""

    allow_auto_subscription_creation: bool = setting(
        FLAG,
        "Consumers create their subscription if it does not exist.",
        default=True,
        dynamic=True,
    )
    subscription_types_enabled: frozenset[SubscriptionType] = setting(
        Choices(SubscriptionType),
        "The subscription types that consumers can use.",
        default=frozenset(SubscriptionType),
        dynamic=True,
    )
    subscription_key_shared_enable: bool = setting(
        FLAG,
        "Allow Key_Shared subscriptions.",
        default=True,
        dynamic=True,
    )
    subscription_key_shared_use_consistent_hashing: bool = setting(
        FLAG,
        "Distribute keys to Key_Shared consumers by a hash ring. If false, each consumer that "
        "joins takes half of the widest range.",
        default=True,
        of_workers=True,
    )
    subscription_key_shared_consistent_hashing_replica_points: int = setting(
        Integer(1, 10_000),
        "Number of points of a consumer on the hash ring: more points distribute keys more "
        "evenly, and make joining more expensive.",
        default=100,
        of_workers=True,
    )
    key_shared_look_ahead_msg_in_replay_threshold_per_consumer: int = setting(
        COUNT,
        "Maximum number of entries for each consumer of a Key_Shared subscription that wait "
        "for a consumer without permits while the others continue; 0 means no limit.",
        default=2000,
        of_workers=True,
    )
    key_shared_look_ahead_msg_in_replay_threshold_per_subscription: int = setting(
        COUNT,
        "Maximum number of such entries for all consumers of a subscription together; 0 "
        "means no limit.",
        default=20000,
        of_workers=True,
    )
    max_subscriptions_per_topic: int = setting(
        COUNT,
        "Maximum number of subscriptions of a topic; 0 means no limit.",
        default=10000,
        pulsar="0",
        dynamic=True,
    )
    max_consumers_per_topic: int = setting(
        COUNT,
        "Maximum number of consumers of a topic; 0 means no limit.",
        default=10000,
        pulsar="0",
        dynamic=True,
    )
    max_same_address_consumers_per_topic: int = setting(
        COUNT,
        "Maximum number of consumers of a topic from one address; 0 means no limit.",
        default=0,
        dynamic=True,
    )
    max_consumers_per_subscription: int = setting(
        COUNT,
        "Maximum number of consumers of a subscription; 0 means no limit.",
        default=5000,
        pulsar="0",
        dynamic=True,
    )
    max_consumer_metadata_size: int = setting(
        COUNT,
        "Largest metadata of a consumer.",
        default=1024,
        unit="characters",
        dynamic=True,
    )
    active_consumer_failover_delay_time_millis: int = setting(
        COUNT,
        "How long a newly active Failover consumer waits for its first message.",
        default=1000,
        unit="ms",
        of_workers=True,
    )
    max_unacked_messages_per_consumer: int = setting(
        COUNT,
        "Maximum number of unacknowledged messages of a consumer of a durable Shared or "
        "Key_Shared subscription; 0 means no limit.",
        default=50000,
        dynamic=True,
    )
    max_unacked_messages_per_subscription: int = setting(
        COUNT,
        "Maximum number of unacknowledged messages of all consumers of a subscription; 0 "
        "means no limit.",
        default=200000,
        dynamic=True,
    )
    max_unacked_messages_per_broker: int = setting(
        COUNT,
        "Maximum number of unacknowledged messages of all subscriptions together, divided "
        "among several workers; 0 means no limit.",
        default=0,
        of_workers=True,
    )
    max_unacked_messages_per_subscription_on_broker_blocked: float = setting(
        Share(),
        "When maxUnackedMessagesPerBroker is reached, only subscriptions with less than this "
        "share of it get more messages.",
        default=0.16,
        of_workers=True,
    )
    magnetar_count_lost_consumers_as_redelivery: bool = setting(
        FLAG,
        "Increase the redelivery count of messages that a Shared or Key_Shared consumer had "
        "when its connection was lost, so that a message that crashes its consumers becomes "
        "a dead letter.",
        default=False,
        of_workers=True,
    )
    acknowledgment_at_batch_index_level_enabled: bool = setting(
        FLAG,
        "Store which messages of a batch are acknowledged. If false, only acknowledgements of "
        "whole batches are stored.",
        default=True,
        of_workers=True,
    )
    dispatcher_max_read_batch_size: int = setting(
        Integer(1),
        "Maximum number of entries in one read.",
        default=100,
        unit="entries",
        dynamic=True,
    )
    dispatcher_max_read_size_bytes: int = setting(
        Integer(1),
        "Maximum number of bytes in one read.",
        default=5242880,
        unit="bytes",
        dynamic=True,
    )
    dispatcher_max_round_robin_batch_size: int = setting(
        Integer(1),
        "Maximum number of entries that a Shared consumer gets before the next consumer's turn.",
        default=20,
        unit="entries",
        dynamic=True,
    )
