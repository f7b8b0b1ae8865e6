package magnetar.clients;

import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.pulsar.client.admin.BrokerStats;
import org.apache.pulsar.client.admin.Brokers;
import org.apache.pulsar.client.admin.Lookup;
import org.apache.pulsar.client.admin.PulsarAdminException.PreconditionFailedException;

/** The broker itself, by every method of the official admin client. */
final class AdminBrokers {
    private AdminBrokers() {}

    @Scenario
    static void everyMethod(Stage stage) throws Exception {
        stage.producing().create();
        var recorder = new Recorder<>(Brokers.class, stage.admin().brokers());
        var brokers = recorder.api;
        var cluster = stage.cluster();
        var active = brokers.getActiveBrokers();
        Check.that(!active.isEmpty(), "no broker is active");
        Check.equal(Set.copyOf(brokers.getActiveBrokers(cluster)), Set.copyOf(active));
        Check.that(active.contains(brokers.getLeaderBroker().getBrokerId()), brokers.getLeaderBroker()::toString);
        Check.that(brokers.getLeaderBroker().getServiceUrl().startsWith("http://"), "no URL of the leader");
        var owned = 0;
        for (var broker : active) {
            var bundles = brokers.getOwnedNamespaces(cluster, broker);
            owned += bundles.keySet().stream().filter(one -> one.startsWith("public/default/")).toList().size();
            brokers.healthcheck(Optional.of(broker));
        }
        Check.that(owned > 0, "no broker owns a bundle of public/default");
        brokers.healthcheck();
        brokers.backlogQuotaCheck();
        Check.that(brokers.getVersion().matches("\\d+\\.\\d+.*"), brokers.getVersion());
        brokers.getInternalConfigurationData();
        settings(brokers);
        recorder.expectAllBut(Map.of("shutDownBrokerGracefully", "it ends the broker, which other scenarios use"));
    }

    private static void settings(Brokers brokers) throws Exception {
        var name = "dispatchThrottlingRatePerTopicInMsg";
        Check.that(brokers.getDynamicConfigurationNames().contains(name), "cannot be changed: " + name);
        var before = brokers.getRuntimeConfigurations().get(name);
        brokers.updateDynamicConfiguration(name, "12345678");
        Check.soon(() -> brokers.getAllDynamicConfigurations().get(name), "12345678");
        Check.soon(() -> brokers.getRuntimeConfigurations().get(name), "12345678");
        brokers.deleteDynamicConfiguration(name);
        Check.soon(() -> brokers.getAllDynamicConfigurations().get(name), null);
        brokers.updateDynamicConfiguration(name, before);
        brokers.deleteDynamicConfiguration(name);
        Check.refused(PreconditionFailedException.class, () ->
                brokers.updateDynamicConfiguration("noSuchSetting", "1"));
        Check.refused(PreconditionFailedException.class, () ->
                brokers.updateDynamicConfiguration("brokerServicePort", "1"));
    }

    @Scenario
    static void statistics(Stage stage) throws Exception {
        stage.producing().create();
        var recorder = new Recorder<>(BrokerStats.class, stage.admin().brokerStats());
        var stats = recorder.api;
        Check.that(stats.getTopics().startsWith("{"), "no object: " + stats.getTopics());
        stats.getLoadReport();
        Check.that(stats.getMetrics().startsWith("["), "no list: " + stats.getMetrics());
        Check.that(stats.getMBeans().startsWith("["), "no list: " + stats.getMBeans());
        stats.getAllocatorStats("default");
        recorder.expectAllBut(
                Map.of("getPendingBookieOpsStats", "it asks for figures of bookies, of which this broker has none"));
    }

    @Scenario
    static void lookups(Stage stage) throws Exception {
        var recorder = new Recorder<>(Lookup.class, stage.admin().lookups());
        stage.createPartitions(2);
        Check.that(recorder.api.lookupTopic(stage.topic + "-partition-0").startsWith("pulsar://"), "no URL");
        Check.equal(recorder.api.lookupPartitionedTopic(stage.topic).keySet(),
                Set.of(stage.topic + "-partition-0", stage.topic + "-partition-1"));
        Check.that(recorder.api.getBundleRange(stage.topic).startsWith("0x"), "no range");
        recorder.expectAllBut(Map.of());
    }
}
