package magnetar.clients;

import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.texts;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerEventListener;
import org.apache.pulsar.client.api.SubscriptionType;

/** Who of several is the active one. */
final class Failover {
    private static final SubscriptionType TYPE = SubscriptionType.Failover;

    private Failover() {}

    /** Notes "NAME active" and "NAME inactive". */
    private static final class Notices implements ConsumerEventListener {
        final LinkedBlockingQueue<String> notices = new LinkedBlockingQueue<>();

        @Override
        public void becameActive(Consumer<?> consumer, int partition) {
            notices.add(consumer.getConsumerName() + " active");
        }

        @Override
        public void becameInactive(Consumer<?> consumer, int partition) {
            notices.add(consumer.getConsumerName() + " inactive");
        }

        void await(String notice) throws Exception {
            var seen = new ArrayList<String>();
            while (!seen.contains(notice)) {
                var next = notices.poll(Stage.WAIT_S, TimeUnit.SECONDS);
                Check.that(next != null, notice + " was not reported, but " + seen);
                seen.add(next);
            }
        }
    }

    @Scenario
    static void theHighestPriorityIsActive(Stage stage) throws Exception {
        var notices = new Notices();
        var low = stage.consuming(stage.newClient(), TYPE).consumerName("low").priorityLevel(1)
                .consumerEventListener(notices).subscribe();
        notices.await("low active");
        var producer = stage.producing().create();
        send(producer, "a");
        Check.equal(texts(take(low, 1)), List.of("a"));
        var high = stage.consuming(stage.newClient(), TYPE).consumerName("high").priorityLevel(0)
                .consumerEventListener(notices).subscribe();
        notices.await("high active");
        // What the other did not acknowledge comes first.
        send(producer, "b");
        Check.equal(texts(take(high, 2)), List.of("a", "b"));
        high.close();
        notices.await("low active");
        send(producer, "c");
        var rest = take(low, 3);
        Check.equal(texts(rest), List.of("a", "b", "c"));
    }

    /** Partition p goes to consumer p modulo their number, in the order of their names. */
    private static void divide(Stage stage, int partitions, int count) throws Exception {
        stage.createPartitions(partitions);
        var came = new LinkedBlockingQueue<String>();
        for (int number = 0; number < count; number++) {
            stage.consuming(stage.newClient(), TYPE).consumerName("c" + number)
                    .messageListener((consumer, message) -> {
                        var topic = message.getTopicName();
                        came.add(topic.substring(topic.lastIndexOf('-') + 1) + " " + consumer.getConsumerName());
                        consumer.acknowledgeAsync(message);
                    }).subscribe();
        }
        var expected = new TreeSet<String>();
        for (int partition = 0; partition < partitions; partition++) {
            send(stage.client().newProducer().topic(stage.topic + "-partition-" + partition).create(), "x");
            expected.add(partition + " c" + partition % count);
        }
        var seen = new TreeSet<String>();
        for (int number = 0; number < partitions; number++) {
            seen.add(String.valueOf(came.poll(Stage.WAIT_S, TimeUnit.SECONDS)));
        }
        Check.equal(seen, expected);
    }

    @Scenario
    static void ninePartitionsOfThreeConsumers(Stage stage) throws Exception {
        divide(stage, 9, 3);
    }

    @Scenario
    static void twoPartitionsOfFourConsumers(Stage stage) throws Exception {
        divide(stage, 2, 4);
    }

    @Scenario
    static void thePriorityOfSharedConsumers(Stage stage) throws Exception {
        var spare = stage.consuming(stage.newClient(), SubscriptionType.Shared).priorityLevel(1).subscribe();
        var first = stage.consuming(stage.newClient(), SubscriptionType.Shared).priorityLevel(0)
                .receiverQueueSize(10).subscribe();
        send(stage.producing().create(), numbers(0, 15));
        // The first has room for ten.
        Check.equal(texts(take(spare, 5)), List.of(numbers(10, 15)));
        Check.equal(texts(take(first, 10)), List.of(numbers(0, 10)));
    }

    @Scenario
    static void theActiveOneGoesOnAfterAKill(Stage stage) throws Exception {
        stage.takeOwnBroker("activeConsumerFailoverDelayTimeMillis=0");
        var consumer = stage.consuming(TYPE).isAckReceiptEnabled(true).subscribe();
        var producer = stage.producing().create();
        send(producer, "a", "b");
        consumer.acknowledge(next(consumer));
        next(consumer);
        stage.killBroker();
        send(producer, "c");
        Check.equal(texts(take(consumer, 2)), List.of("b", "c"));
    }
}
