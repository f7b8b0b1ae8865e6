package magnetar.clients;

import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.text;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageListener;
import org.apache.pulsar.client.api.PulsarClientException.TopicTerminatedException;
import org.apache.pulsar.client.api.SubscriptionType;

/** Topics that are terminated. */
final class Ends {
    private Ends() {}

    /** Acknowledges what comes, and remembers the end. */
    private static final class Listener implements MessageListener<byte[]> {
        private final transient CompletableFuture<Void> end = new CompletableFuture<>();

        @Override
        public void received(Consumer<byte[]> consumer, Message<byte[]> message) {
            consumer.acknowledgeAsync(message);
        }

        @Override
        public void reachedEndOfTopic(Consumer<byte[]> consumer) {
            end.complete(null);
        }

        void await() throws Exception {
            end.get(Stage.WAIT_S, TimeUnit.SECONDS);
        }
    }

    private static void terminate(Stage stage) throws Exception {
        stage.rest("POST", stage.path() + "/terminate", "");
    }

    @Scenario
    static void listenersHearOfTheEnd(Stage stage) throws Exception {
        var producer = stage.producing().create();
        var early = new Listener();
        stage.consuming(SubscriptionType.Shared).messageListener(early).subscribe();
        send(producer, "a", "b");
        terminate(stage);
        early.await();
        Check.refused(TopicTerminatedException.class, () -> producer.send("c".getBytes()));
        Check.refused(TopicTerminatedException.class, () -> stage.producing().create());
        var late = new Listener();
        stage.consuming(SubscriptionType.Failover).subscriptionName("late").messageListener(late).subscribe();
        late.await();
    }

    @Scenario
    static void aConsumerIsAtTheEndOnceItHasAcknowledgedAll(Stage stage) throws Exception {
        var producer = stage.producing().create();
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        send(producer, "a", "b");
        terminate(stage);
        for (var expected : new String[] {"a", "b"}) {
            Check.that(!consumer.hasReachedEndOfTopic(), "the end came before " + expected);
            var message = consumer.receive(Stage.WAIT_S, TimeUnit.SECONDS);
            Check.equal(text(message), expected);
            consumer.acknowledge(message);
        }
        var other = new Listener();
        stage.consuming(SubscriptionType.Shared).subscriptionName("other").messageListener(other).subscribe();
        other.await();
        Check.that(consumer.hasReachedEndOfTopic(), "it was not notified of the end, unlike others");
        consumer.seek(MessageId.earliest);
        Check.equal(text(consumer.receive(Stage.WAIT_S, TimeUnit.SECONDS)), "a");
    }

    @Scenario
    static void theEndOutlivesAKill(Stage stage) throws Exception {
        stage.takeOwnBroker();
        send(stage.producing().create(), "a");
        terminate(stage);
        stage.killBroker();
        var listener = new Listener();
        stage.consuming(SubscriptionType.Shared).messageListener(listener).subscribe();
        listener.await();
        Check.refused(TopicTerminatedException.class, () -> stage.producing().create());
    }
}
