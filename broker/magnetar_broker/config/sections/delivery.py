"""How messages get to consumers."""

from typing import Annotated

from magnetar_broker.config.domains import COUNT, FLAG, SubscriptionType
from magnetar_broker.config.sections.section import section
from magnetar_broker.config.values import Choices, Integer, Key, Share


@section
class DelayedDelivery:
    """Messages that wait for their time."""

    delayed_delivery_enabled: Annotated[
        bool,
        Key(
            "delayedDeliveryEnabled",
            FLAG,
            "Let messages wait for the time that they bring; otherwise they are delivered at once.",
        ),
    ] = True
    delayed_delivery_tick_time_millis: Annotated[
        int,
        Key(
            "delayedDeliveryTickTimeMillis",
            Integer(1),
            "How much before its time a message may come; or after it, where delays are strict.",
            unit="ms",
        ),
    ] = 1000
    is_delayed_delivery_deliver_at_time_strict: Annotated[
        bool,
        Key(
            "isDelayedDeliveryDeliverAtTimeStrict",
            FLAG,
            "Never deliver a message before its time, rather up to a tick later.",
        ),
    ] = False
    delayed_delivery_max_delay_in_millis: Annotated[
        int,
        Key(
            "delayedDeliveryMaxDelayInMillis",
            COUNT,
            "A message with a longer delay is refused; 0 is no limit.",
            unit="ms",
        ),
    ] = 0


@section
class Subscriptions:
    """What consumers may do, and how messages are shared out among them."""

    allow_auto_subscription_creation: Annotated[
        bool,
        Key("allowAutoSubscriptionCreation", FLAG, "A consumer may create its subscription."),
    ] = True
    subscription_types_enabled: Annotated[
        frozenset[SubscriptionType],
        Key(
            "subscriptionTypesEnabled",
            Choices(SubscriptionType),
            "The subscription types that consumers may use.",
        ),
    ] = frozenset(SubscriptionType)
    subscription_key_shared_enable: Annotated[
        bool,
        Key("subscriptionKeySharedEnable", FLAG, "Consumers may use Key_Shared subscriptions."),
    ] = True
    subscription_key_shared_use_consistent_hashing: Annotated[
        bool,
        Key(
            "subscriptionKeySharedUseConsistentHashing",
            FLAG,
            "Key_Shared consumers divide the keys by a hash ring; if off, each one that joins "
            "takes half of the widest range.",
        ),
    ] = True
    subscription_key_shared_consistent_hashing_replica_points: Annotated[
        int,
        Key(
            "subscriptionKeySharedConsistentHashingReplicaPoints",
            Integer(1, 10_000),
            "Points that a consumer has on the hash ring; more of them divide the keys more "
            "evenly and make joining dearer.",
        ),
    ] = 100
    key_shared_look_ahead_msg_in_replay_threshold_per_consumer: Annotated[
        int,
        Key(
            "keySharedLookAheadMsgInReplayThresholdPerConsumer",
            COUNT,
            "Entries, for each consumer of a Key_Shared subscription, that may wait because their "
            "consumer has no room, while others go on; 0 is no limit.",
        ),
    ] = 2000
    key_shared_look_ahead_msg_in_replay_threshold_per_subscription: Annotated[
        int,
        Key(
            "keySharedLookAheadMsgInReplayThresholdPerSubscription",
            COUNT,
            "The same for all consumers of a subscription together; 0 is no limit.",
        ),
    ] = 20000
    max_subscriptions_per_topic: Annotated[
        int,
        Key(
            "maxSubscriptionsPerTopic",
            COUNT,
            "Subscriptions of a topic; 0 is no limit.",
            pulsar="0",
        ),
    ] = 10000
    max_consumers_per_topic: Annotated[
        int,
        Key("maxConsumersPerTopic", COUNT, "Consumers on a topic; 0 is no limit.", pulsar="0"),
    ] = 10000
    max_same_address_consumers_per_topic: Annotated[
        int,
        Key(
            "maxSameAddressConsumersPerTopic",
            COUNT,
            "Consumers on a topic from one address; 0 is no limit.",
        ),
    ] = 0
    max_consumers_per_subscription: Annotated[
        int,
        Key(
            "maxConsumersPerSubscription",
            COUNT,
            "Consumers of a subscription; 0 is no limit.",
            pulsar="0",
        ),
    ] = 5000
    max_consumer_metadata_size: Annotated[
        int,
        Key("maxConsumerMetadataSize", COUNT, "The largest consumer metadata.", unit="characters"),
    ] = 1024
    active_consumer_failover_delay_time_millis: Annotated[
        int,
        Key(
            "activeConsumerFailoverDelayTimeMillis",
            COUNT,
            "How long a newly active Failover consumer waits for its first message.",
            unit="ms",
        ),
    ] = 1000
    max_unacked_messages_per_consumer: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerConsumer",
            COUNT,
            "Messages that a consumer of a durable Shared subscription may hold without "
            "acknowledging; 0 is no limit.",
        ),
    ] = 50000
    max_unacked_messages_per_subscription: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerSubscription",
            COUNT,
            "The same for all consumers of a subscription together; 0 is no limit.",
        ),
    ] = 200000
    max_unacked_messages_per_broker: Annotated[
        int,
        Key(
            "maxUnackedMessagesPerBroker",
            COUNT,
            "The same for all subscriptions of the broker together; 0 is no limit.",
        ),
    ] = 0
    max_unacked_messages_per_subscription_on_broker_blocked: Annotated[
        float,
        Key(
            "maxUnackedMessagesPerSubscriptionOnBrokerBlocked",
            Share(),
            "At that limit, only subscriptions that hold less than this share of it get more.",
        ),
    ] = 0.16
    magnetar_count_lost_consumers_as_redelivery: Annotated[
        bool,
        Key(
            "magnetarCountLostConsumersAsRedelivery",
            FLAG,
            "Raise the redelivery count of what a Shared or Key_Shared consumer held when its "
            "connection was lost: so a message that kills its consumers ends as a dead letter.",
        ),
    ] = False
    acknowledgment_at_batch_index_level_enabled: Annotated[
        bool,
        Key(
            "acknowledgmentAtBatchIndexLevelEnabled",
            FLAG,
            "Remember which messages of a batch were acknowledged.",
        ),
    ] = True
    dispatcher_max_read_batch_size: Annotated[
        int,
        Key("dispatcherMaxReadBatchSize", Integer(1), "Entries of one read.", unit="entries"),
    ] = 100
    dispatcher_max_read_size_bytes: Annotated[
        int,
        Key("dispatcherMaxReadSizeBytes", Integer(1), "Bytes of one read.", unit="bytes"),
    ] = 5242880
    dispatcher_max_round_robin_batch_size: Annotated[
        int,
        Key(
            "dispatcherMaxRoundRobinBatchSize",
            Integer(1),
            "Entries that a Shared consumer gets before it is another one's turn.",
            unit="entries",
        ),
    ] = 20
