package magnetar.clients;

import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.text;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.pulsar.client.api.MessageRoutingMode;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionType;

/** Topics that grow, are unloaded and are deleted under their clients. */
final class Topics {
    private Topics() {}

    @Scenario
    static void partitionsThatAreAddedAreUsedAndRead(Stage stage) throws Exception {
        stage.createPartitions(1);
        var consumer = stage.consuming(SubscriptionType.Shared)
                .autoUpdatePartitionsInterval(100, TimeUnit.MILLISECONDS).subscribe();
        var producer = stage.producing().messageRoutingMode(MessageRoutingMode.RoundRobinPartition)
                .autoUpdatePartitionsInterval(100, TimeUnit.MILLISECONDS).create();
        send(producer, "before");
        consumer.acknowledge(next(consumer));
        stage.rest("POST", stage.path() + "/partitions", "3");
        Set<String> seen = new HashSet<>();
        while (seen.size() < 3) {
            send(producer, "after");
            var message = next(consumer);
            seen.add(message.getTopicName());
            consumer.acknowledge(message);
        }
    }

    @Scenario
    static void nothingIsLostInPartitionsThatTheConsumerHasNotNoticed(Stage stage) throws Exception {
        stage.createPartitions(1);
        var consumer = stage.consuming(SubscriptionType.Shared).autoUpdatePartitions(false).subscribe();
        stage.rest("POST", stage.path() + "/partitions", "2");
        var producer = stage.producing().messageRoutingMode(MessageRoutingMode.RoundRobinPartition).create();
        send(producer, numbers(0, 10));
        consumer.close();
        var all = stage.consuming(SubscriptionType.Shared).subscribe();
        var got = new HashSet<>(Stage.texts(Stage.take(all, 10)));
        Check.equal(got, Set.of(numbers(0, 10)));
    }

    @Scenario
    static void anUnloadIsHardlyNoticed(Stage stage) throws Exception {
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        var producer = stage.producing().create();
        var sent = new ArrayList<String>();
        var received = new ArrayList<String>();
        for (int round = 0; round < 3; round++) {
            for (var number : numbers(10 * round, 10 * round + 10)) {
                sent.add(number);
                producer.sendAsync(number.getBytes());
            }
            stage.rest("PUT", stage.path() + "/unload", "");
            producer.flush();
        }
        while (received.size() < sent.size()) {
            var message = next(consumer);
            if (!received.contains(text(message))) { // what was on its way comes again
                received.add(text(message));
            }
            consumer.acknowledge(message);
        }
        Check.equal(received, sent);
    }

    @Scenario
    static void aTopicDeletedUnderLoadComesAnew(Stage stage) throws Exception {
        stage.consuming(SubscriptionType.Shared).subscribe();
        var producer = stage.producing().create();
        var under = Stream.of(numbers(0, 100)).map(number -> producer.sendAsync(number.getBytes())).toList();
        stage.rest("DELETE", stage.path() + "?force=true", "");
        producer.flush();
        for (var receipt : under) {
            receipt.get(Stage.WAIT_S, TimeUnit.SECONDS);
        }
        var late = stage.consuming(SubscriptionType.Shared).subscriptionName("late").subscribe();
        send(producer, "last");
        while (!text(next(late)).equals("last")) {}
    }

    @Scenario
    static void aDeletedTopicThatMayNotBeCreatedIsMissing(Stage stage) throws Exception {
        var namespace = "public/" + stage.name;
        var topic = "persistent://" + namespace + "/topic";
        stage.rest("PUT", "namespaces/" + namespace, "");
        stage.rest("POST", "namespaces/" + namespace + "/autoTopicCreation", "{\"allowAutoTopicCreation\": false}");
        Check.refused(PulsarClientException.class, () -> stage.client().newProducer().topic(topic).create());
        stage.rest("PUT", "persistent/" + namespace + "/topic", "");
        send(stage.client().newProducer().topic(topic).create(), "a");
        stage.rest("DELETE", "persistent/" + namespace + "/topic?force=true", "");
        Check.refused(PulsarClientException.class, () -> stage.newClient().newConsumer().topic(topic)
                .subscriptionName("sub").subscribe());
    }

    @Scenario
    static void aNamespaceMakesPartitionsByItself(Stage stage) throws Exception {
        var namespace = "public/" + stage.name;
        stage.rest("PUT", "namespaces/" + namespace, "");
        stage.rest("POST", "namespaces/" + namespace + "/autoTopicCreation",
                "{\"allowAutoTopicCreation\": true, \"topicType\": \"partitioned\", \"defaultNumPartitions\": 3}");
        var topic = "persistent://" + namespace + "/topic";
        stage.client().newProducer().topic(topic).create();
        Check.equal(stage.client().getPartitionsForTopic(topic).get(Stage.WAIT_S, TimeUnit.SECONDS).size(), 3);
    }

    @Scenario
    static void aSubscriptionDeletedByForceComesAnew(Stage stage) throws Exception {
        var producer = stage.producing().create();
        var consumer = stage.consuming(SubscriptionType.Shared).subscribe();
        send(producer, "a");
        consumer.acknowledge(next(consumer));
        stage.rest("DELETE", stage.path() + "/subscription/sub?force=true", "");
        send(producer, "b");
        while (!text(next(consumer)).equals("b")) {} // it subscribes again, from the earliest there is
    }

    @Scenario
    static void aTruncatedTopicHasOnlyWhatComesAfter(Stage stage) throws Exception {
        var producer = stage.producing().create();
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        consumer.close();
        send(producer, numbers(0, 10));
        stage.rest("DELETE", stage.path() + "/truncate", "");
        send(producer, "new");
        Check.equal(List.of(text(next(stage.consuming(SubscriptionType.Exclusive).subscribe()))), List.of("new"));
    }
}
