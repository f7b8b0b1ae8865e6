package magnetar.clients;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.GrantTopicPermissionOptions;
import org.apache.pulsar.client.admin.ListNamespaceTopicsOptions;
import org.apache.pulsar.client.admin.Mode;
import org.apache.pulsar.client.admin.Namespaces;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.PulsarAdminException.ConflictException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotAllowedException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotFoundException;
import org.apache.pulsar.client.admin.PulsarAdminException.PreconditionFailedException;
import org.apache.pulsar.client.admin.RevokeTopicPermissionOptions;
import org.apache.pulsar.client.admin.Topics;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.common.policies.data.AuthAction;
import org.apache.pulsar.common.policies.data.BookieAffinityGroupData;
import org.apache.pulsar.common.policies.data.BundlesData;
import org.apache.pulsar.common.policies.data.EntryFilters;
import org.apache.pulsar.common.policies.data.Policies;
import org.apache.pulsar.common.policies.data.RetentionPolicies;

/** Namespaces, by every method of the official admin client. */
final class AdminNamespaces {
    private AdminNamespaces() {}

    private static final String ALL = "0x00000000_0xffffffff";

    @Scenario
    static void everyMethod(Stage stage) throws Exception {
        var recorder = new Recorder<>(Namespaces.class, stage.admin().namespaces());
        var api = recorder.api;
        var tenant = stage.newTenant();
        new Parts()
                .add("creation", () -> creation(api, tenant, stage.cluster()))
                .add("policies", () -> {
                    api.createNamespace(tenant + "/policies");
                    AdminPolicies.ofNamespace(api, tenant + "/policies");
                })
                .add("without effect", () -> withoutEffect(api, tenant + "/effectless", stage.cluster()))
                .add("permissions", () -> permissions(stage.admin().topics(), api, tenant + "/permissions"))
                .add("properties", () -> properties(api, tenant + "/properties"))
                .add("bundles", () -> bundles(stage, api, tenant + "/bundles"))
                .add("backlogs", () -> backlogs(stage, api, tenant + "/backlogs"))
                .play();
        recorder.expectAllBut(Map.of());
    }

    private static void creation(Namespaces api, String tenant, String cluster) throws Exception {
        api.createNamespace(tenant + "/plain");
        api.createNamespace(tenant + "/eight", 8);
        api.createNamespace(tenant + "/clusters", Set.of(cluster));
        api.createNamespace(tenant + "/divided", BundlesData.builder().numBundles(3)
                .boundaries(List.of("0x00000000", "0x10000000", "0x20000000", "0xffffffff")).build());
        var policies = new Policies();
        policies.retention_policies = new RetentionPolicies(10, 20);
        policies.message_ttl_in_seconds = 77;
        policies.replication_clusters = Set.of(cluster);
        api.createNamespace(tenant + "/detailed", policies);
        Check.that(api.getNamespaces(tenant).containsAll(List.of(tenant + "/plain", tenant + "/divided")),
                api.getNamespaces(tenant)::toString);
        Check.equal(api.getPolicies(tenant + "/eight").bundles.getNumBundles(), 8);
        Check.equal(api.getBundles(tenant + "/divided").getBoundaries(),
                List.of("0x00000000", "0x10000000", "0x20000000", "0xffffffff"));
        Check.equal(api.getPolicies(tenant + "/detailed").retention_policies, policies.retention_policies);
        Check.equal(api.getNamespaceMessageTTL(tenant + "/detailed"), 77);
        Check.equal(api.getPolicies(tenant + "/detailed").replication_clusters, Set.of(cluster));

        Check.refused(ConflictException.class, () -> api.createNamespace(tenant + "/plain"));
        Check.refused(NotFoundException.class, () -> api.createNamespace("no-tenant-of-ours/any"));
        Check.refused(NotFoundException.class, () -> api.getPolicies(tenant + "/none"));
        Check.refused(NotFoundException.class, () -> api.getNamespaces("no-tenant-of-ours"));
        Check.refused(NotFoundException.class, () -> api.setRetention(tenant + "/none", new RetentionPolicies(1, 1)));
        Check.refused(NotFoundException.class, () -> api.deleteNamespace(tenant + "/none"));
        api.deleteNamespace(tenant + "/plain");
        api.deleteNamespace(tenant + "/eight", false);
        Check.that(!api.getNamespaces(tenant).contains(tenant + "/eight"), "it is still there");
    }

    /** What one broker alone stores only. */
    private static void withoutEffect(Namespaces api, String namespace, String cluster) throws Exception {
        api.createNamespace(namespace);
        api.setNamespaceReplicationClusters(namespace, Set.of(cluster), false);
        Check.equal(api.getNamespaceReplicationClusters(namespace), List.of(cluster));
        api.setNamespaceAllowedClusters(namespace, Set.of(cluster));
        Check.equal(api.getNamespaceAllowedClusters(namespace), List.of(cluster));
        Check.refused(NotAllowedException.class, () -> api.getReplicationConfigVersion(namespace));
        Check.equal(api.getOffloadThreshold(namespace), -1L);
        api.setOffloadThreshold(namespace, 1 << 20);
        Check.equal(api.getOffloadThreshold(namespace), 1L << 20);
        api.setOffloadThresholdInSeconds(namespace, 100);
        Check.equal(api.getOffloadThresholdInSeconds(namespace), 100L);
        Check.equal(api.getOffloadDeleteLagMs(namespace), null);
        api.setOffloadDeleteLag(namespace, 3, TimeUnit.SECONDS);
        Check.equal(api.getOffloadDeleteLagMs(namespace), 3000L);
        api.clearOffloadDeleteLag(namespace);
        Check.equal(api.getOffloadDeleteLagMs(namespace), null);
        api.setNamespaceAntiAffinityGroup(namespace, "rivals");
        Check.worksOrIsAbsent(() -> api.getAntiAffinityNamespaces(namespace.split("/")[0], cluster, "rivals"));
        api.deleteNamespaceAntiAffinityGroup(namespace);
        api.setBookieAffinityGroup(namespace, BookieAffinityGroupData.builder()
                .bookkeeperAffinityGroupPrimary("first").bookkeeperAffinityGroupSecondary("second").build());
        Check.equal(api.getBookieAffinityGroup(namespace).getBookkeeperAffinityGroupPrimary(), "first");
        api.deleteBookieAffinityGroup(namespace);
        Check.refused(PulsarAdminException.class, () -> api.setNamespaceResourceGroup(namespace, "no-group"));
        Check.worksOrIsAbsent(() -> api.getNamespaceResourceGroup(namespace));
        Check.worksOrIsAbsent(() -> api.removeNamespaceResourceGroup(namespace));
        Check.equal(api.getNamespaceEntryFilters(namespace), null);
        Check.refused(PulsarAdminException.class, () ->
                api.setNamespaceEntryFilters(namespace, new EntryFilters("some")));
        api.removeNamespaceEntryFilters(namespace);
        Check.worksOrIsAbsent(() -> api.updateMigrationState(namespace, false));
    }

    private static void permissions(Topics topics, Namespaces api, String namespace) throws Exception {
        api.createNamespace(namespace);
        var topic = "persistent://" + namespace + "/guarded";
        topics.createNonPartitionedTopic(topic);
        api.grantPermissionOnNamespace(namespace, "writer", Set.of(AuthAction.produce));
        api.grantPermissionOnNamespace(namespace, "reader", Set.of(AuthAction.consume, AuthAction.functions));
        Check.equal(api.getPermissions(namespace), Map.of(
                "writer", Set.of(AuthAction.produce), "reader", Set.of(AuthAction.consume, AuthAction.functions)));
        api.revokePermissionsOnNamespace(namespace, "writer");
        Check.equal(api.getPermissions(namespace).keySet(), Set.of("reader"));
        api.grantPermissionOnSubscription(namespace, "sub", Set.of("one", "two"));
        Check.equal(api.getPermissionOnSubscription(namespace), Map.of("sub", Set.of("one", "two")));
        api.revokePermissionOnSubscription(namespace, "sub", "one");
        Check.equal(api.getPermissionOnSubscription(namespace), Map.of("sub", Set.of("two")));
        api.grantPermissionOnTopics(List.of(GrantTopicPermissionOptions.builder()
                .topic(topic).role("guest").actions(Set.of(AuthAction.produce)).build()));
        Check.equal(api.getPolicies(namespace).auth_policies.getTopicAuthentication(),
                Map.of(topic, Map.of("guest", Set.of(AuthAction.produce))));
        api.revokePermissionOnTopics(List.of(RevokeTopicPermissionOptions.builder().topic(topic).role("guest").build()));
        Check.equal(api.getPolicies(namespace).auth_policies.getTopicAuthentication()
                .getOrDefault(topic, Map.of()), Map.of());
        Check.refused(NotFoundException.class, () -> api.getPermissions(namespace + "-none"));
    }

    private static void properties(Namespaces api, String namespace) throws Exception {
        api.createNamespace(namespace);
        api.setProperty(namespace, "color", "blue");
        api.setProperties(namespace, Map.of("size", "9", "shape", "round"));
        Check.equal(api.getProperty(namespace, "color"), "blue");
        Check.equal(api.getProperties(namespace), Map.of("color", "blue", "size", "9", "shape", "round"));
        Check.equal(api.removeProperty(namespace, "color"), "blue");
        Check.equal(api.getProperties(namespace).keySet(), Set.of("size", "shape"));
        api.clearProperties(namespace);
        Check.equal(api.getProperties(namespace), Map.of());
    }

    private static void bundles(Stage stage, Namespaces api, String namespace) throws Exception {
        api.createNamespace(namespace, 1);
        var topics = stage.admin().topics();
        var topic = "persistent://" + namespace + "/t";
        topics.createNonPartitionedTopic(topic);
        topics.createNonPartitionedTopic("non-persistent://" + namespace + "/fleeting");
        Check.equal(api.getTopics(namespace), List.of(topic));
        Check.equal(api.getTopics(namespace, ListNamespaceTopicsOptions.builder().mode(Mode.PERSISTENT)
                .includeSystemTopic(false).build()), List.of(topic));
        stage.client().newProducer().topic(topic).create().close();
        api.unloadNamespaceBundle(namespace, ALL);
        api.unload(namespace);
        stage.client().newProducer().topic(topic).create().close();
        var hashes = api.getTopicHashPositions(namespace, ALL, List.of(topic)).getTopicHashPositions();
        Check.equal(hashes.keySet(), Set.of(topic));
        api.splitNamespaceBundle(namespace, ALL, true, null);
        Check.equal(api.getBundles(namespace).getBoundaries(), List.of("0x00000000", "0x7fffffff", "0xffffffff"));
        stage.client().newProducer().topic(topic).create().close();
        for (var number : Stage.numbers(0, 8)) { // the original does not divide fewer than two
            topics.createNonPartitionedTopic(topic + number);
        }
        api.splitNamespaceBundle(namespace, "0x00000000_0x7fffffff", false, "specified_positions_divide",
                List.of(0x1000_0000L));
        Check.soon(() -> api.getBundles(namespace).getBoundaries(),
                List.of("0x00000000", "0x10000000", "0x7fffffff", "0xffffffff"));
        Check.refused(PreconditionFailedException.class, () -> api.unloadNamespaceBundle(namespace, "0x3_0x4"));
        Check.refused(ConflictException.class, () -> api.deleteNamespace(namespace));
        topics.delete(topic);
        for (var number : Stage.numbers(0, 8)) {
            topics.delete(topic + number);
        }
        topics.delete("non-persistent://" + namespace + "/fleeting");
        api.deleteNamespaceBundle(namespace, "0x00000000_0x10000000");
        Check.worksOrIsAbsent(() -> api.deleteNamespaceBundle(namespace, "0x10000000_0x7fffffff", true));
        api.deleteNamespace(namespace);
    }

    private static void backlogs(Stage stage, Namespaces api, String namespace) throws Exception {
        api.createNamespace(namespace, 1);
        var topics = stage.admin().topics();
        var topic = "persistent://" + namespace + "/t";
        topics.createNonPartitionedTopic(topic);
        for (var name : List.of("a", "b", "c", "d")) {
            topics.createSubscription(topic, name, MessageId.earliest);
        }
        Stage.send(stage.client().newProducer().topic(topic).create(), "1", "2", "3");
        api.clearNamespaceBacklogForSubscription(namespace, "a");
        api.clearNamespaceBundleBacklogForSubscription(namespace, ALL, "b");
        Check.equal(backlog(stage, topic, "a"), 0L);
        Check.equal(backlog(stage, topic, "b"), 0L);
        Check.equal(backlog(stage, topic, "c"), 3L);
        api.clearNamespaceBacklog(namespace);
        Check.equal(backlog(stage, topic, "c"), 0L);
        api.clearNamespaceBundleBacklog(namespace, ALL);
        api.unsubscribeNamespace(namespace, "a");
        api.unsubscribeNamespaceBundle(namespace, ALL, "b");
        Check.equal(Set.copyOf(topics.getSubscriptions(topic)), Set.of("c", "d"));
    }

    private static long backlog(Stage stage, String topic, String subscription) throws Exception {
        return stage.admin().topics().getStats(topic, true).getSubscriptions().get(subscription).getMsgBacklog();
    }
}
