package magnetar.clients;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.pulsar.client.admin.Namespaces;
import org.apache.pulsar.client.admin.TopicPolicies;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.AutoSubscriptionCreationOverride;
import org.apache.pulsar.common.policies.data.AutoTopicCreationOverride;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.BacklogQuota.BacklogQuotaType;
import org.apache.pulsar.common.policies.data.BacklogQuota.RetentionPolicy;
import org.apache.pulsar.common.policies.data.DelayedDeliveryPolicies;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode;
import org.apache.pulsar.common.policies.data.InactiveTopicPolicies;
import org.apache.pulsar.common.policies.data.OffloadPolicies;
import org.apache.pulsar.common.policies.data.PersistencePolicies;
import org.apache.pulsar.common.policies.data.PublishRate;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SchemaAutoUpdateCompatibilityStrategy;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;
import org.apache.pulsar.common.policies.data.SubscribeRate;
import org.apache.pulsar.common.policies.data.SubscriptionAuthMode;

/** Policies of namespaces and of topics, as the official admin client sets and reads them. */
final class AdminPolicies {
    private AdminPolicies() {}

    static final BacklogQuota SIZE = BacklogQuota.builder().limitSize(20L << 30).retentionPolicy(
            RetentionPolicy.consumer_backlog_eviction).build();
    static final BacklogQuota AGE = BacklogQuota.builder().limitTime(3600).retentionPolicy(
            RetentionPolicy.producer_exception).build();

    private static final DispatchRate RATE = DispatchRate.builder().dispatchThrottlingRateInMsg(1000)
            .dispatchThrottlingRateInByte(1 << 20).ratePeriodInSecond(2).build();

    private static final DelayedDeliveryPolicies DELAYS = DelayedDeliveryPolicies.builder().active(true)
            .tickTime(2000).maxDeliveryDelayInMillis(60_000).build();

    private static final UnaryOperator<Object> DRIVER = one ->
            ((OffloadPolicies) one).getManagedLedgerOffloadDriver();

    private static final OffloadPolicies OFFLOAD = OffloadPolicies.builder()
            .managedLedgerOffloadDriver("aws-s3").managedLedgerOffloadBucket("b").build();

    /** With one name for namespaces and topics. */
    private static final List<Policy> COMMON = List.of(
            Policy.of("SubscriptionExpirationTime", 60),
            Policy.of("Retention", new RetentionPolicies(120, 20 << 10)),
            Policy.of("InactiveTopicPolicies",
                    new InactiveTopicPolicies(InactiveTopicDeleteMode.delete_when_subscriptions_caught_up, 90, true)),
            Policy.of("Persistence", new PersistencePolicies(1, 1, 1, 2.5)),
            Policy.of("DeduplicationStatus", true),
            Policy.of("DispatchRate", RATE),
            Policy.of("SubscriptionDispatchRate", RATE),
            Policy.of("ReplicatorDispatchRate", RATE),
            Policy.of("PublishRate", new PublishRate(500, 1 << 20)),
            Policy.of("SubscribeRate", new SubscribeRate(10, 30)),
            Policy.of("CompactionThreshold", 1_000_000L),
            Policy.of("MaxConsumersPerSubscription", 5),
            Policy.of("MaxSubscriptionsPerTopic", 50),
            Policy.of("DeduplicationSnapshotInterval", 15),
            Policy.of("AutoSubscriptionCreation", AutoSubscriptionCreationOverride.builder()
                    .allowAutoSubscriptionCreation(false).build()),
            new Policy("OffloadPolicies", OFFLOAD, null, DRIVER));

    private static final List<Policy> OF_TOPICS = List.of(
            Policy.of("SubscriptionTypesEnabled",
                    Set.of(SubscriptionType.Shared, SubscriptionType.Exclusive), Set.of()),
            Policy.of("MessageTTL", 600),
            Policy.of("DelayedDeliveryPolicy", DELAYS),
            Policy.of("MaxUnackedMessagesOnConsumer", 100),
            Policy.of("MaxUnackedMessagesOnSubscription", 200),
            Policy.of("MaxProducers", 7),
            Policy.of("MaxConsumers", 8),
            Policy.of("MaxMessageSize", 1024),
            Policy.of("SchemaCompatibilityStrategy", SchemaCompatibilityStrategy.FULL));

    private static final List<Policy> OF_NAMESPACES = List.of(
            Policy.of("SubscriptionTypesEnabled", Set.of(SubscriptionType.Shared), Set.of()),
            Policy.of("NamespaceMessageTTL", 600),
            Policy.of("AutoTopicCreation", AutoTopicCreationOverride.builder()
                    .allowAutoTopicCreation(true).topicType("partitioned").defaultNumPartitions(2).build()),
            Policy.of("AllowedTopicPropertyKeysForMetrics", Set.of("team")),
            Policy.of("MaxProducersPerTopic", 7),
            Policy.of("MaxConsumersPerTopic", 8),
            Policy.of("MaxUnackedMessagesPerConsumer", 100),
            Policy.of("MaxUnackedMessagesPerSubscription", 200),
            Policy.of("MaxTopicsPerNamespace", 1000, 0),
            Policy.of("EncryptionRequiredStatus", true, false),
            Policy.of("SubscriptionAuthMode", SubscriptionAuthMode.Prefix, SubscriptionAuthMode.None),
            Policy.of("SchemaValidationEnforced", true, false),
            Policy.of("SchemaCompatibilityStrategy", SchemaCompatibilityStrategy.FORWARD,
                    SchemaCompatibilityStrategy.UNDEFINED),
            Policy.of("SchemaAutoUpdateCompatibilityStrategy", SchemaAutoUpdateCompatibilityStrategy.Full),
            Policy.of("IsAllowAutoUpdateSchema", false, true),
            Policy.of("DispatcherPauseOnAckStatePersistent", true, false),
            Policy.of("NamespaceAntiAffinityGroup", "spread", ""));

    /** Every policy of a namespace by itself, in turn: at once the original loses some of the changes. */
    static void ofNamespace(Namespaces api, String namespace) throws Exception {
        Policy.parts(api, namespace, COMMON).playInTurn();
        Policy.parts(api, namespace, OF_NAMESPACES).playInTurn();
        Check.soon(() -> api.getDelayedDelivery(namespace), null);
        api.setDelayedDeliveryMessages(namespace, DELAYS);
        Check.equal(api.getDelayedDelivery(namespace), DELAYS);
        api.removeDelayedDeliveryMessages(namespace);
        Check.equal(api.getDelayedDelivery(namespace), null);
        Check.equal(api.getBacklogQuotaMap(namespace), Map.of());
        api.setBacklogQuota(namespace, SIZE);
        api.setBacklogQuota(namespace, AGE, BacklogQuotaType.message_age);
        Check.equal(api.getBacklogQuotaMap(namespace).get(BacklogQuotaType.message_age).getLimitTime(), 3600);
        Check.equal(api.getBacklogQuotaMap(namespace).get(BacklogQuotaType.destination_storage).getPolicy(),
                RetentionPolicy.consumer_backlog_eviction);
        api.removeBacklogQuota(namespace, BacklogQuotaType.message_age);
        Check.equal(api.getBacklogQuotaMap(namespace).keySet(), Set.of(BacklogQuotaType.destination_storage));
        api.removeBacklogQuota(namespace);
        Check.equal(api.getBacklogQuotaMap(namespace), Map.of());
    }

    /** By the interface for policies of topics. */
    static void ofTopic(TopicPolicies api, String topic) throws Exception {
        Policy.parts(api, topic, COMMON).playInTurn();
        Policy.parts(api, topic, OF_TOPICS).playInTurn();
    }

    /** By the older methods, which do the same. */
    static void ofTopic(Topics api, String topic) throws Exception {
        Policy.parts(api, topic, COMMON).playInTurn();
        Policy.parts(api, topic, OF_TOPICS).playInTurn();
    }
}
