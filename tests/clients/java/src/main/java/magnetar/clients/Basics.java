package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.sendBatch;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;
import static magnetar.clients.Stage.texts;

import java.util.HashMap;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.BatchReceivePolicy;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/** Publish and receive. */
final class Basics {
    private Basics() {}

    @Scenario
    static void eachTypeReceivesEverythingInOrder(Stage stage) throws Exception {
        var producer = stage.producing().create();
        send(producer, numbers(0, 100));
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).subscribe();
            Check.equal(texts(take(consumer, 100)), List.of(numbers(0, 100)));
        }
    }

    @Scenario
    static void keysPropertiesAndTimesTravel(Stage stage) throws Exception {
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        stage.producing().compressionType(CompressionType.LZ4).create().newMessage()
                .key("key").orderingKey("order".getBytes()).property("colour", "red").eventTime(42)
                .sequenceId(7).value("x".repeat(1000).getBytes()).send();
        var message = Stage.next(consumer);
        Check.equal(message.getKey(), "key");
        Check.equal(new String(message.getOrderingKey()), "order");
        Check.equal(message.getProperties().get("colour"), "red");
        Check.equal(message.getEventTime(), 42L);
        Check.equal(message.getSequenceId(), 7L);
        Check.equal(text(message), "x".repeat(1000));
    }

    @Scenario
    static void batchesAreUnfolded(Stage stage) throws Exception {
        var consumer = stage.consuming(SubscriptionType.Shared)
                .batchReceivePolicy(BatchReceivePolicy.builder().maxNumMessages(10)
                        .timeout(Stage.WAIT_S, TimeUnit.SECONDS).build())
                .subscribe();
        sendBatch(stage.batching(), numbers(0, 20));
        for (int round = 0; round < 2; round++) {
            var messages = consumer.batchReceive();
            Check.equal(messages.size(), 10);
            consumer.acknowledge(messages);
        }
    }

    @Scenario
    static void aPausedConsumerReceivesWhenItIsResumed(Stage stage) throws Exception {
        var consumer = stage.consuming(SubscriptionType.Shared).startPaused(true).subscribe();
        send(stage.producing().create(), "a");
        expectSilence(consumer);
        consumer.resume();
        Check.equal(texts(take(consumer, 1)), List.of("a"));
    }

    @Scenario
    static void aConsumerWithoutAQueueReceivesOneByOne(Stage stage) throws Exception {
        var first = stage.consuming(SubscriptionType.Shared).receiverQueueSize(0).subscribe();
        var second = stage.consuming(SubscriptionType.Shared).receiverQueueSize(0).subscribe();
        send(stage.producing().create(), numbers(0, 10));
        for (int number = 0; number < 10; number++) {
            var message = (number < 9 ? first : second).receiveAsync().get(Stage.WAIT_S, TimeUnit.SECONDS);
            Check.equal(text(message), "" + number);
        }
    }

    @Scenario
    static void partitionsOfOneTopic(Stage stage) throws Exception {
        stage.createPartitions(3);
        var consumer = stage.consuming(SubscriptionType.Shared).subscribe();
        var producer = stage.producing().create();
        for (int key = 0; key < 6; key++) {
            Stage.sendKeyed(producer, "key" + key, numbers(0, 10));
        }
        var byKey = new HashMap<String, TreeSet<String>>();
        for (var message : take(consumer, 60)) {
            byKey.computeIfAbsent(message.getKey(), key -> new TreeSet<>())
                    .add(message.getTopicName().substring(stage.topic.length()));
            consumer.acknowledge(message);
        }
        Check.that(byKey.values().stream().allMatch(names -> names.size() == 1), byKey.toString());
        Check.equal(byKey.size(), 6);
    }

    @Scenario
    static void topicsByPattern(Stage stage) throws Exception {
        for (var end : List.of("-a", "-b", "-c")) {
            send(stage.client().newProducer().topic(stage.topic + end).create(), end);
        }
        var consumer = stage.client().newConsumer().subscriptionName("sub")
                .topicsPattern(Pattern.compile(stage.topic + "-[ab]"))
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .subscribe();
        Check.equal(new TreeSet<>(texts(take(consumer, 2))), new TreeSet<>(List.of("-a", "-b")));
        expectSilence(consumer);
    }

    @Scenario
    static void typesDoNotMixAndForceUnsubscribes(Stage stage) throws Exception {
        var shared = stage.consuming(SubscriptionType.Shared).subscribe();
        Check.refused(PulsarClientException.ConsumerBusyException.class,
                () -> stage.consuming(stage.newClient(), SubscriptionType.Key_Shared).subscribe());
        var second = stage.consuming(stage.newClient(), SubscriptionType.Shared).subscribe();
        Check.refused(PulsarClientException.class, shared::unsubscribe);
        send(stage.producing().create(), "before");
        second.unsubscribe(true);
        var again = stage.consuming(SubscriptionType.Failover)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Latest)
                .subscriptionName("sub2").subscribe();
        send(stage.producing().create(), "after");
        Check.equal(texts(take(again, 1)), List.of("after"));
    }

    @Scenario
    static void volatileTopicsOfAllTypes(Stage stage) throws Exception {
        var topic = stage.topic.replace("persistent://", "non-persistent://");
        for (var type : SubscriptionType.values()) {
            var consumer = stage.client().newConsumer().topic(topic).subscriptionType(type)
                    .subscriptionName(type.name()).subscribe();
            send(stage.client().newProducer().topic(topic).create(), "to " + type);
            Check.equal(texts(take(consumer, 1)), List.of("to " + type));
            consumer.close();
        }
    }
}
