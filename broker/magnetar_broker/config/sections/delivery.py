"""Delivery of messages to consumers."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, FLAG, SubscriptionType
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Choices, Integer, Key, Share


@section
class DelayedDelivery:
    """Delayed delivery."""

    delayed_delivery_enabled: Annotated[
        bool,
        Key(
            "delayedDeliveryEnabled",
            FLAG,
            "Deliver messages at the delivery time that their producer has set. If false, they "
            "are delivered at once.",
            dynamic=True,
        ),
    ] = True
    delayed_delivery_tick_time_millis: Annotated[
        int,
        Key(
            "delayedDeliveryTickTimeMillis",
            Integer(1),
            "Precision of delivery times: how much later a message can come or, if "
            "isDelayedDeliveryDeliverAtTimeStrict is false, how much earlier.",
            unit="ms",
            dynamic=True,
        ),
    ] = 1000
    is_delayed_delivery_deliver_at_time_strict: Annotated[
        bool,
        Key(
            "isDelayedDeliveryDeliverAtTimeStrict",
            FLAG,
            "Never deliver a message before its delivery time, but up to a tick after it. If "
            "false, messages are delivered up to a tick early instead.",
            pulsar="false",
            of_workers=True,
        ),
    ] = True
    delayed_delivery_max_delay_in_millis: Annotated[
        int,
        Key(
            "delayedDeliveryMaxDelayInMillis",
            COUNT,
            "A message with a longer delay is refused; 0 means no limit.",
            unit="ms",
            dynamic=True,
        ),
    ] = 0


@section
class Subscriptions:
    """Limits of consumers, and the distribution of messages among them."""

    allow_auto_subscription_creation: Annotated[
        bool,
        Key(
            "allowAutoSubscriptionCreation",
            FLAG,
            "Consumers create their subscription if it does not exist.",
            dynamic=True,
        ),
    ] = True
    subscription_types_enabled: Annotated[
        frozenset[SubscriptionType],
        Key(
            "subscriptionTypesEnabled",
            Choices(SubscriptionType),
            "The subscription types that consumers can use.",
            dynamic=True,
        ),
    ] = frozenset(SubscriptionType)
    subscription_key_shared_enable: Annotated[
        bool,
        Key("subscriptionKeySharedEnable", FLAG, "Allow Key_Shared subscriptions.", dynamic=True),
    ] = True
    subscription_key_shared_use_consistent_hashing: Annotated[
        bool,
        Key(
            "subscriptionKeySharedUseConsistentHashing",
            FLAG,
            "Distribute keys to Key_Shared consumers by a hash ring. If false, each consumer that "
            "joins takes half of the widest range.",
            of_workers=True,
        ),
    ] = True
    subscription_key_shared_consistent_hashing_replica_points: Annotated[
        int,
        Key(
            "subscriptionKeySharedConsistentHashingReplicaPoints",
            Integer(1, 10_000),
            "Number of points of a consumer on the hash ring: more points distribute keys more "
            "evenly, and make joining more expensive.",
            of_workers=True,
        ),
    ] = 100
    key_shared_look_ahead_msg_in_replay_threshold_per_consumer: Annotated[
        int,
        Key(
            "keySharedLookAheadMsgInReplayThresholdPerConsumer",
            COUNT,
            "Maximum number of entries for each consumer of a Key_Shared subscription that wait "
            "for a consumer without permits while the others continue; 0 means no limit.",
            of_workers=True,
        ),
    ] = 2000
    key_shared_look_ahead_msg_in_replay_threshold_per_subscription: Annotated[
        int,
        Key(
            "keySharedLookAheadMsgInReplayThresholdPerSubscription",
            COUNT,
            "Maximum number of such entries for all consumers of a subscription together; 0 "
            "means no limit.",
            of_workers=True,
        ),
    ] = 20000
    max_subscriptions_per_topic: Annotated[
        int,
        Key(
            "maxSubscriptionsPerTopic",
            COUNT,
            "Maximum number of subscriptions of a topic; 0 means no limit.",
            pulsar="0",
            dynamic=True,
        ),
    ] = 10000
    max_consumers_per_topic: Annotated[
        int,
        Key(
            "maxConsumersPerTopic",
            COUNT,
            "Maximum number of consumers of a topic; 0 means no limit.",
            pulsar="0",
            dynamic=True,
        ),
    ] = 10000
    max_same_address_consumers_per_topic: Annotated[
        int,
        Key(
            "maxSameAddressConsumersPerTopic",
            COUNT,
            "Maximum number of consumers of a topic from one address; 0 means no limit.",
            dynamic=True,
        ),
    ] = 0
    max_consumers_per_subscription: Annotated[
        int,
        Key(
            "maxConsumersPerSubscription",
            COUNT,
            "Maximum number of consumers of a subscription; 0 means no limit.",
            pulsar="0",
            dynamic=True,
        ),
    ] = 5000
    max_consumer_metadata_size: Annotated[
        int,
        Key(
            "maxConsumerMetadataSize",
            COUNT,
            "Largest metadata of a consumer.",
            unit="characters",
            dynamic=True,
        ),
    ] = 1024
    active_consumer_failover_delay_time_millis: Annotated[
        int,
        Key(
            "activeConsumerFailoverDelayTimeMillis",
            COUNT,
            "How long a newly active Failover consumer waits for its first message.",
            unit="ms",
            of_workers=True,
        ),
    ] = 1000
    max_unacked_messages_per_consumer: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerConsumer",
            COUNT,
            "Maximum number of unacknowledged messages of a consumer of a durable Shared or "
            "Key_Shared subscription; 0 means no limit.",
            dynamic=True,
        ),
    ] = 50000
    max_unacked_messages_per_subscription: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerSubscription",
            COUNT,
            "Maximum number of unacknowledged messages of all consumers of a subscription; 0 "
            "means no limit.",
            dynamic=True,
        ),
    ] = 200000
    max_unacked_messages_per_broker: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerBroker",
            COUNT,
            "Maximum number of unacknowledged messages of all subscriptions together, divided "
            "among several workers; 0 means no limit.",
            of_workers=True,
        ),
    ] = 0
    max_unacked_messages_per_subscription_on_broker_blocked: Annotated[
        float,
        Key(
            "maxUnackedMessagesPerSubscriptionOnBrokerBlocked",
            Share(),
            "When maxUnackedMessagesPerBroker is reached, only subscriptions with less than this "
            "share of it get more messages.",
            of_workers=True,
        ),
    ] = 0.16
    magnetar_count_lost_consumers_as_redelivery: Annotated[
        bool,
        Key(
            "magnetarCountLostConsumersAsRedelivery",
            FLAG,
            "Increase the redelivery count of messages that a Shared or Key_Shared consumer had "
            "when its connection was lost, so that a message that crashes its consumers becomes "
            "a dead letter.",
            of_workers=True,
        ),
    ] = False
    acknowledgment_at_batch_index_level_enabled: Annotated[
        bool,
        Key(
            "acknowledgmentAtBatchIndexLevelEnabled",
            FLAG,
            "Store which messages of a batch are acknowledged. If false, only acknowledgements of "
            "whole batches are stored.",
            of_workers=True,
        ),
    ] = True
    dispatcher_max_read_batch_size: Annotated[
        int,
        Key(
            "dispatcherMaxReadBatchSize",
            Integer(1),
            "Maximum number of entries in one read.",
            unit="entries",
            dynamic=True,
        ),
    ] = 100
    dispatcher_max_read_size_bytes: Annotated[
        int,
        Key(
            "dispatcherMaxReadSizeBytes",
            Integer(1),
            "Maximum number of bytes in one read.",
            unit="bytes",
            dynamic=True,
        ),
    ] = 5242880
    dispatcher_max_round_robin_batch_size: Annotated[
        int,
        Key(
            "dispatcherMaxRoundRobinBatchSize",
            Integer(1),
            "Maximum number of entries that a Shared consumer gets before the next consumer's "
            "turn.",
            unit="entries",
            dynamic=True,
        ),
    ] = 20
