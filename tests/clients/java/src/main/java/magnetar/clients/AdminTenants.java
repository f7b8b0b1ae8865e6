package magnetar.clients;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.pulsar.client.admin.Clusters;
import org.apache.pulsar.client.admin.PulsarAdminException.ConflictException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotFoundException;
import org.apache.pulsar.client.admin.PulsarAdminException.PreconditionFailedException;
import org.apache.pulsar.client.admin.Tenants;
import org.apache.pulsar.common.policies.data.AutoFailoverPolicyData;
import org.apache.pulsar.common.policies.data.AutoFailoverPolicyType;
import org.apache.pulsar.common.policies.data.ClusterData;
import org.apache.pulsar.common.policies.data.ClusterPolicies.ClusterUrl;
import org.apache.pulsar.common.policies.data.FailureDomain;
import org.apache.pulsar.common.policies.data.NamespaceIsolationData;
import org.apache.pulsar.common.policies.data.TenantInfo;

/** Tenants and clusters, by every method of the official admin client. */
final class AdminTenants {
    private AdminTenants() {}

    @Scenario
    static void everyMethodForTenants(Stage stage) throws Exception {
        var recorder = new Recorder<>(Tenants.class, stage.admin().tenants());
        var tenants = recorder.api;
        var cluster = stage.cluster();
        var info = TenantInfo.builder().adminRoles(Set.of("boss", "deputy")).allowedClusters(Set.of(cluster)).build();
        tenants.createTenant("firm", info);
        Check.that(tenants.getTenants().containsAll(List.of("firm", "public")), tenants.getTenants()::toString);
        Check.equal(tenants.getTenantInfo("firm"), info);
        var changed = TenantInfo.builder().adminRoles(Set.of("boss")).allowedClusters(Set.of(cluster)).build();
        tenants.updateTenant("firm", changed);
        Check.equal(tenants.getTenantInfo("firm"), changed);

        Check.refused(ConflictException.class, () -> tenants.createTenant("firm", info));
        Check.refused(PreconditionFailedException.class, () -> tenants.createTenant("not a name", info));
        Check.refused(PreconditionFailedException.class, () -> tenants.createTenant("nowhere",
                TenantInfo.builder().allowedClusters(Set.of("no-cluster")).build()));
        Check.refused(NotFoundException.class, () -> tenants.getTenantInfo("nobody"));
        Check.refused(NotFoundException.class, () -> tenants.updateTenant("nobody", info));
        Check.refused(NotFoundException.class, () -> tenants.deleteTenant("nobody"));

        stage.admin().namespaces().createNamespace("firm/desk");
        Check.refused(ConflictException.class, () -> tenants.deleteTenant("firm"));
        stage.admin().namespaces().deleteNamespace("firm/desk");
        tenants.deleteTenant("firm");
        Check.that(!tenants.getTenants().contains("firm"), "the tenant is still there");
        recorder.expectAllBut(Map.of());
    }

    @Scenario
    static void everyMethodForClusters(Stage stage) throws Exception {
        var recorder = new Recorder<>(Clusters.class, stage.admin().clusters());
        var clusters = recorder.api;
        var data = ClusterData.builder().serviceUrl("http://east:8080").brokerServiceUrl("pulsar://east:6650").build();
        clusters.createCluster("east", data);
        Check.that(clusters.getClusters().containsAll(List.of("east", stage.cluster())),
                clusters.getClusters()::toString);
        Check.equal(clusters.getCluster("east").getServiceUrl(), "http://east:8080");
        clusters.updateCluster("east", ClusterData.builder().serviceUrl("http://orient:8080")
                .brokerServiceUrl("pulsar://orient:6650").build());
        Check.equal(clusters.getCluster("east").getBrokerServiceUrl(), "pulsar://orient:6650");
        Check.refused(ConflictException.class, () -> clusters.createCluster("east", data));
        Check.refused(NotFoundException.class, () -> clusters.getCluster("west"));
        Check.refused(NotFoundException.class, () -> clusters.updateCluster("west", data));
        Check.refused(NotFoundException.class, () -> clusters.deleteCluster("west"));
        peers(clusters, stage.cluster());
        domains(clusters);
        isolation(clusters, stage.cluster());
        clusters.updateClusterMigration("east", true,
                new ClusterUrl("http://new:8080", null, "pulsar://new:6650", null));
        Check.equal(clusters.getClusterMigration("east").isMigrated(), true);
        clusters.deleteCluster("east");
        Check.refused(NotFoundException.class, () -> clusters.deleteCluster("east"));
        recorder.expectAllBut(Map.of());
    }

    private static void peers(Clusters clusters, String own) throws Exception {
        clusters.updatePeerClusterNames("east", new LinkedHashSet<>(List.of(own)));
        Check.equal(clusters.getPeerClusterNames("east"), Set.of(own));
        clusters.updatePeerClusterNames("east", new LinkedHashSet<>());
        var left = clusters.getPeerClusterNames("east");
        Check.that(left == null || left.isEmpty(), () -> left + " are left");
        Check.refused(PreconditionFailedException.class, () ->
                clusters.updatePeerClusterNames("east", new LinkedHashSet<>(List.of("west"))));
    }

    private static void domains(Clusters clusters) throws Exception {
        var rack = FailureDomain.builder().brokers(Set.of("one", "two")).build();
        clusters.createFailureDomain("east", "rack", rack);
        Check.equal(clusters.getFailureDomain("east", "rack").getBrokers(), rack.getBrokers());
        clusters.updateFailureDomain("east", "rack", FailureDomain.builder().brokers(Set.of("three")).build());
        Check.equal(clusters.getFailureDomains("east").get("rack").getBrokers(), Set.of("three"));
        clusters.deleteFailureDomain("east", "rack");
        Check.refused(NotFoundException.class, () -> clusters.getFailureDomain("east", "rack"));
        Check.equal(clusters.getFailureDomains("east"), Map.of());
    }

    private static void isolation(Clusters clusters, String own) throws Exception {
        var policy = NamespaceIsolationData.builder().namespaces(List.of("isolated/.*")).primary(List.of("no-broker"))
                .secondary(List.of()).autoFailoverPolicy(AutoFailoverPolicyData.builder()
                        .policyType(AutoFailoverPolicyType.min_available)
                        .parameters(Map.of("min_limit", "1", "usage_threshold", "80")).build()).build();
        clusters.createNamespaceIsolationPolicy(own, "apart", policy);
        Check.equal(clusters.getNamespaceIsolationPolicy(own, "apart").getNamespaces(), List.of("isolated/.*"));
        Check.equal(clusters.getNamespaceIsolationPolicies(own).keySet(), Set.of("apart"));
        clusters.updateNamespaceIsolationPolicy(own, "apart", policy);
        var brokers = clusters.getBrokersWithNamespaceIsolationPolicy(own);
        Check.that(!brokers.isEmpty(), "no broker");
        var broker = brokers.get(0).getBrokerName();
        Check.equal(clusters.getBrokerWithNamespaceIsolationPolicy(own, broker).getBrokerName(), broker);
        clusters.deleteNamespaceIsolationPolicy(own, "apart");
        Check.refused(NotFoundException.class, () -> clusters.getNamespaceIsolationPolicy(own, "apart"));
    }
}
