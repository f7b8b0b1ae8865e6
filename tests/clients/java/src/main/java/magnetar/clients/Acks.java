package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.sendBatch;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;
import static magnetar.clients.Stage.texts;

import java.util.List;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.SubscriptionType;

/** What was acknowledged stays away, across reconnects and kills. */
final class Acks {
    private static final List<SubscriptionType> TYPES = List.of(SubscriptionType.values());

    private Acks() {}

    private static ConsumerBuilder<byte[]> withReceipts(Stage stage, SubscriptionType type)
            throws Exception {
        return stage.consuming(type).subscriptionName(type.name())
                .isAckReceiptEnabled(true).enableBatchIndexAcknowledgment(true);
    }

    /** Acknowledge all but the numbers that a third divides, and wait for the answers. */
    private static void acknowledgeTwoThirds(Consumer<byte[]> consumer, int count) throws Exception {
        Stage.acknowledge(consumer, take(consumer, count).stream()
                .filter(message -> Integer.parseInt(text(message)) % 3 != 0).toList());
    }

    @Scenario
    static void singleMessagesOfABatchStayAwayFromTheNextConsumer(Stage stage) throws Exception {
        sendBatch(stage.batching(), numbers(0, 10));
        for (var type : TYPES) {
            var consumer = withReceipts(stage, type).subscribe();
            acknowledgeTwoThirds(consumer, 10);
            consumer.close();
            var next = withReceipts(stage, type).subscribe();
            Check.equal(texts(take(next, 4)), List.of("0", "3", "6", "9"));
            expectSilence(next);
        }
    }

    @Scenario
    static void answeredAcksSurviveAKill(Stage stage) throws Exception {
        stage.takeOwnBroker();
        sendBatch(stage.batching(), numbers(0, 10));
        send(stage.producing().create(), numbers(10, 20));
        for (var type : TYPES) {
            acknowledgeTwoThirds(withReceipts(stage, type).subscribe(), 20);
        }
        stage.close();
        stage.killBroker();
        for (var type : TYPES) {
            var next = withReceipts(stage, type).subscribe();
            Check.equal(texts(take(next, 7)), List.of("0", "3", "6", "9", "12", "15", "18"));
            expectSilence(next);
        }
    }

    @Scenario
    static void aConsumerThatReconnectsGetsWhatIsLeftOfABatch(Stage stage) throws Exception {
        stage.takeOwnBroker();
        sendBatch(stage.batching(), numbers(0, 10));
        var consumer = withReceipts(stage, SubscriptionType.Shared).subscribe();
        acknowledgeTwoThirds(consumer, 10);
        stage.killBroker();
        Check.equal(texts(take(consumer, 4)), List.of("0", "3", "6", "9"));
        expectSilence(consumer);
    }

    @Scenario
    static void aCumulativeAckInTheMiddleOfABatch(Stage stage) throws Exception {
        sendBatch(stage.batching(), numbers(0, 10));
        for (var type : List.of(SubscriptionType.Exclusive, SubscriptionType.Failover)) {
            var consumer = withReceipts(stage, type).subscribe();
            consumer.acknowledgeCumulative(take(consumer, 10).get(5));
            consumer.close();
            Check.equal(texts(take(withReceipts(stage, type).subscribe(), 4)), List.of("6", "7", "8", "9"));
        }
    }

    @Scenario
    static void withoutBatchIndexAcksABatchComesAgainWhole(Stage stage) throws Exception {
        var producer = stage.batching();
        sendBatch(producer, "a", "b");
        sendBatch(producer, "c", "d");
        var consumer = stage.consuming(SubscriptionType.Shared)
                .enableBatchIndexAcknowledgment(false).subscribe();
        Stage.acknowledge(consumer, take(consumer, 4).subList(0, 3));
        consumer.close();
        var next = stage.consuming(SubscriptionType.Shared).subscribe();
        Check.equal(texts(take(next, 2)), List.of("c", "d"));
        expectSilence(next);
    }

    @Scenario
    static void onSharedAnyConsumerAcknowledgesForAnother(Stage stage) throws Exception {
        send(stage.producing().create(), numbers(0, 10));
        var first = withReceipts(stage, SubscriptionType.Shared).subscribe();
        var messages = take(first, 10);
        var second = withReceipts(stage, SubscriptionType.Shared).subscribe();
        for (var message : messages.subList(0, 9)) {
            second.acknowledge(message.getMessageId());
        }
        first.close();
        Check.equal(texts(take(second, 1)), List.of("9"));
        expectSilence(second);
    }
}
