package magnetar.clients;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.pulsar.client.admin.ListTopicsOptions;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.PulsarAdminException.ConflictException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotFoundException;
import org.apache.pulsar.client.admin.PulsarAdminException.PreconditionFailedException;
import org.apache.pulsar.client.admin.TopicPolicies;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.admin.Topics.QueryParam;
import org.apache.pulsar.common.naming.TopicDomain;
import org.apache.pulsar.common.policies.data.AuthAction;
import org.apache.pulsar.common.policies.data.BacklogQuota.BacklogQuotaType;
import org.apache.pulsar.common.policies.data.DispatchRate;
import org.apache.pulsar.common.policies.data.EntryFilters;

/** Topics, by every method of the official admin client; AdminMessages has the parts that need messages. */
final class AdminTopics {
    private AdminTopics() {}

    private static final String ALL = "0x00000000_0xffffffff";

    @Scenario
    static void everyMethod(Stage stage) throws Exception {
        var recorder = new Recorder<>(Topics.class, stage.admin().topics());
        var api = recorder.api;
        var namespace = stage.newTenant() + "/a";
        stage.admin().namespaces().createNamespace(namespace, 1);
        stage.admin().namespaces().createNamespace(namespace + "-lists", 1);
        var topic = "persistent://" + namespace + "/";
        AdminMessages.addTo(new Parts(), stage, api, topic)
                .add("names", () -> names(api, namespace + "-lists"))
                .add("partitions", () -> partitions(api, topic + "partitions"))
                .add("properties", () -> properties(api, topic + "properties"))
                .add("permissions", () -> permissions(api, topic + "permissions"))
                .add("policies", () -> policies(api, topic + "policies"))
                .add("other clusters", () -> otherClusters(stage, api, topic + "clusters"))
                .play();
        recorder.expectAllBut(Map.of());
    }

    private static void names(Topics api, String namespace) throws Exception {
        var topic = "persistent://" + namespace + "/plain";
        var partitioned = "persistent://" + namespace + "/parts";
        api.createNonPartitionedTopic(topic);
        api.createPartitionedTopic(partitioned, 2);
        var all = Set.of(topic, partitioned + "-partition-0", partitioned + "-partition-1");
        Check.equal(Set.copyOf(api.getList(namespace)), all);
        Check.equal(Set.copyOf(api.getList(namespace, TopicDomain.persistent)), all);
        Check.equal(api.getList(namespace, TopicDomain.non_persistent), List.of());
        Check.equal(Set.copyOf(api.getList(namespace, TopicDomain.persistent, Map.of(QueryParam.Bundle, ALL))), all);
        Check.that(api.getList(namespace, TopicDomain.persistent, ListTopicsOptions.builder().bundle(ALL)
                .includeSystemTopic(true).build()).containsAll(all), "not all are listed");
        Check.equal(api.getPartitionedTopicList(namespace), List.of(partitioned));
        Check.equal(api.getPartitionedTopicList(namespace, ListTopicsOptions.builder().includeSystemTopic(false)
                .build()), List.of(partitioned));
        api.getListInBundle(namespace, ALL);

        Check.refused(ConflictException.class, () -> api.createNonPartitionedTopic(topic));
        Check.refused(ConflictException.class, () -> api.createPartitionedTopic(partitioned, 2));
        Check.refused(NotFoundException.class, () -> api.getList(namespace + "-none"));
        Check.refused(ConflictException.class, () -> api.delete(partitioned));
        Check.refused(NotFoundException.class, () -> api.delete(topic + "-none"));
        api.unload(topic);
        api.delete(topic);
        api.deletePartitionedTopic(partitioned, false);
        Check.equal(api.getList(namespace), List.of());
        Check.refused(NotFoundException.class, () -> api.getStats(topic));
        Check.refused(NotFoundException.class, () -> api.unload(topic));
    }

    private static void partitions(Topics api, String topic) throws Exception {
        api.createPartitionedTopic(topic, 2, Map.of("team", "blue"));
        Check.equal(api.getPartitionedTopicMetadata(topic).partitions, 2);
        api.updatePartitionedTopic(topic, 3);
        api.updatePartitionedTopic(topic, 4, false);
        api.updatePartitionedTopic(topic, 5, false, true);
        Check.equal(api.getPartitionedTopicMetadata(topic).partitions, 5);
        Check.equal(api.getPartitionedTopicMetadata(topic).properties, Map.of("team", "blue"));
        api.createMissedPartitions(topic);
        Check.refused(PulsarAdminException.class, () -> api.updatePartitionedTopic(topic, 1));
        Check.refused(PulsarAdminException.class, () -> api.createPartitionedTopic(topic + "-none", -1));
        Check.refused(PulsarAdminException.class, () -> api.createPartitionedTopic(topic + "-none", 0));
        Check.equal(api.getPartitionedStats(topic, true).getPartitions().size(), 5);
        Check.equal(api.getPartitionedInternalStats(topic).partitions.size(), 5);
        api.deletePartitionedTopic(topic, true, true);
        Check.refused(NotFoundException.class, () -> api.deletePartitionedTopic(topic));
    }

    private static void properties(Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic, Map.of("team", "blue", "tier", "1"));
        Check.equal(api.getProperties(topic), Map.of("team", "blue", "tier", "1"));
        api.updateProperties(topic, Map.of("team", "green"));
        Check.equal(api.getProperties(topic), Map.of("team", "green", "tier", "1"));
        api.removeProperties(topic, "tier");
        Check.equal(api.getProperties(topic), Map.of("team", "green"));
        Check.refused(NotFoundException.class, () -> api.updateProperties(topic + "-none", Map.of("a", "b")));
    }

    private static void permissions(Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic);
        Check.equal(api.getPermissions(topic), Map.of());
        api.grantPermission(topic, "guest", Set.of(AuthAction.consume));
        Check.equal(api.getPermissions(topic), Map.of("guest", Set.of(AuthAction.consume)));
        api.revokePermissions(topic, "guest");
        Check.equal(api.getPermissions(topic), Map.of());
    }

    private static void policies(Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic);
        AdminPolicies.ofTopic(api, topic);
        api.setBacklogQuota(topic, AdminPolicies.SIZE);
        api.setBacklogQuota(topic, AdminPolicies.AGE, BacklogQuotaType.message_age);
        Check.soon(() -> api.getBacklogQuotaMap(topic).keySet(), Set.of(BacklogQuotaType.values()));
        Check.equal(api.getBacklogQuotaMap(topic, true).get(BacklogQuotaType.message_age).getLimitTime(), 3600);
        api.removeBacklogQuota(topic, BacklogQuotaType.message_age);
        api.removeBacklogQuota(topic);
        Check.soon(() -> api.getBacklogQuotaMap(topic), Map.of());
        api.enableDeduplication(topic, true);
        Check.soon(() -> api.getDeduplicationEnabled(topic), true);
        api.disableDeduplication(topic);
        Check.soon(() -> api.getDeduplicationEnabled(topic), null);
        Check.equal(api.getSchemaValidationEnforced(topic, false), false);
        api.setSchemaValidationEnforced(topic, true);
        Check.soon(() -> api.getSchemaValidationEnforced(topic, true), true);
    }

    private static void otherClusters(Stage stage, Topics api, String topic) throws Exception {
        api.createNonPartitionedTopic(topic);
        api.setReplicationClusters(topic, List.of(stage.cluster()));
        Check.soon(() -> api.getReplicationClusters(topic, false), Set.of(stage.cluster()));
        api.removeReplicationClusters(topic);
        api.createSubscription(topic, "sub", org.apache.pulsar.client.api.MessageId.latest);
        api.getReplicatedSubscriptionStatus(topic, "sub");
        api.setReplicatedSubscriptionStatus(topic, "sub", false);
        Check.worksOrIsAbsent(() -> api.createShadowTopic(topic + "-shadow", topic));
        Check.worksOrIsAbsent(() -> api.getShadowSource(topic + "-shadow"));
        Check.worksOrIsAbsent(() -> api.setShadowTopics(topic, List.of(topic + "-shadow")));
        Check.worksOrIsAbsent(() -> api.getShadowTopics(topic));
        Check.worksOrIsAbsent(() -> api.removeShadowTopics(topic));
    }

    @Scenario
    static void everyMethodForPolicies(Stage stage) throws Exception {
        var recorder = new Recorder<>(TopicPolicies.class, stage.admin().topicPolicies());
        var api = recorder.api;
        var topic = stage.topic;
        stage.admin().topics().createNonPartitionedTopic(topic);
        AdminPolicies.ofTopic(api, topic);
        api.setBacklogQuota(topic, AdminPolicies.SIZE);
        api.setBacklogQuota(topic, AdminPolicies.AGE, BacklogQuotaType.message_age);
        Check.soon(() -> api.getBacklogQuotaMap(topic).keySet(), Set.of(BacklogQuotaType.values()));
        Check.equal(api.getBacklogQuotaMap(topic, true).get(BacklogQuotaType.message_age).getLimitTime(), 3600);
        api.removeBacklogQuota(topic, BacklogQuotaType.message_age);
        api.removeBacklogQuota(topic);
        Check.soon(() -> api.getBacklogQuotaMap(topic), Map.of());
        var rate = DispatchRate.builder().dispatchThrottlingRateInMsg(9).dispatchThrottlingRateInByte(9000)
                .ratePeriodInSecond(1).build();
        api.setSubscriptionDispatchRate(topic, "sub", rate);
        Check.soon(() -> api.getSubscriptionDispatchRate(topic, "sub"), rate);
        Check.equal(api.getSubscriptionDispatchRate(topic, "sub", true), rate);
        api.removeSubscriptionDispatchRate(topic, "sub");
        Check.soon(() -> api.getSubscriptionDispatchRate(topic, "sub"), null);
        Check.equal(api.getEntryFiltersPerTopic(topic, false), null);
        Check.refused(PulsarAdminException.class, () ->
                api.setEntryFiltersPerTopic(topic, new EntryFilters("some")));
        api.removeEntryFiltersPerTopic(topic);
        api.setDispatcherPauseOnAckStatePersistent(topic).get();
        Check.soon(() -> api.getDispatcherPauseOnAckStatePersistent(topic, false).get(), true);
        api.removeDispatcherPauseOnAckStatePersistent(topic).get();
        api.setReplicationClusters(topic, List.of(stage.cluster())).get();
        Check.soon(() -> api.getReplicationClusters(topic, false), Set.of(stage.cluster()));
        api.removeReplicationClusters(topic);
        api.setMaxConsumers(topic, 3);
        Check.soon(() -> api.getMaxConsumers(topic), 3);
        api.deleteTopicPolicies(topic);
        Check.soon(() -> api.getMaxConsumers(topic), null);
        Check.refused(NotFoundException.class, () -> api.setMaxConsumers(topic + "-none", 3));
        Check.refused(PreconditionFailedException.class, () -> api.setMaxConsumers(topic, -3));
        recorder.expectAllBut(Map.of());
    }
}
