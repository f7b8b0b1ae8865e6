package magnetar.clients;

import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.texts;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
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
        final LinkedBlockingQueue<String> told = new LinkedBlockingQueue<>();

        @Override
        public void becameActive(Consumer<?> consumer, int partition) {
            told.add(consumer.getConsumerName() + " active");
        }

        @Override
        public void becameInactive(Consumer<?> consumer, int partition) {
            told.add(consumer.getConsumerName() + " inactive");
        }

        void await(String notice) throws Exception {
            var seen = new ArrayList<String>();
            while (!seen.contains(notice)) {
                var next = told.poll(Stage.WAIT_S, TimeUnit.SECONDS);
                Check.that(next != null, notice + " was not said, but " + seen);
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

    @Scenario
    static void partitionsAreDivided(Stage stage) throws Exception {
        stage.createPartitions(4);
        var consumers = new ArrayList<Consumer<byte[]>>();
        for (int number = 0; number < 2; number++) {
            consumers.add(stage.consuming(stage.newClient(), TYPE).consumerName("c" + number).subscribe());
        }
        // Every partition is silent until it knows both consumers: what came before goes to either.
        var producer = stage.producing().create();
        for (int key = 0; key < 40; key++) {
            Stage.sendKeyed(producer, "key" + key, "x");
        }
        var partitions = List.of(new HashSet<String>(), new HashSet<String>());
        int came = 0;
        for (int number = 0; number < 2; number++) {
            var consumer = consumers.get(number);
            for (org.apache.pulsar.client.api.Message<byte[]> message;
                    (message = consumer.receive(1, TimeUnit.SECONDS)) != null; came++) {
                partitions.get(number).add(message.getTopicName());
                consumer.acknowledge(message);
            }
        }
        Check.that(came >= 40, came + " came");
        Check.equal(partitions.get(0).size() + partitions.get(1).size(), 4);
        Check.equal(partitions.get(0).size(), 2);
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
