package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.sendBatch;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;
import static magnetar.clients.Stage.texts;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;

/** Messages that come again, and their redelivery counts. */
final class Redelivery {
    private static final List<SubscriptionType> COUNTING =
            List.of(SubscriptionType.Shared, SubscriptionType.Key_Shared);
    private static final List<SubscriptionType> SINGLE =
            List.of(SubscriptionType.Exclusive, SubscriptionType.Failover);

    private Redelivery() {}

    private static MultiplierRedeliveryBackoff backoff() {
        return MultiplierRedeliveryBackoff.builder().minDelayMs(50).maxDelayMs(400).multiplier(2).build();
    }

    @Scenario
    static void nacksCount(Stage stage) throws Exception {
        send(stage.producing().create(), "good", "bad");
        for (var type : COUNTING) {
            var consumer = stage.consuming(type).subscriptionName(type.name())
                    .negativeAckRedeliveryBackoff(backoff()).subscribe();
            consumer.acknowledge(next(consumer));
            for (int count = 0; count < 5; count++) {
                var bad = next(consumer);
                Check.equal(text(bad) + bad.getRedeliveryCount(), "bad" + count);
                consumer.negativeAcknowledge(bad);
            }
            consumer.acknowledge(next(consumer));
            expectSilence(consumer);
        }
    }

    @Scenario
    static void ackTimeoutsCount(Stage stage) throws Exception {
        send(stage.producing().create(), "forgotten");
        for (var type : COUNTING) {
            var consumer = stage.consuming(type).subscriptionName(type.name())
                    .ackTimeout(1, TimeUnit.SECONDS).ackTimeoutTickTime(100, TimeUnit.MILLISECONDS)
                    .ackTimeoutRedeliveryBackoff(backoff()).subscribe();
            for (int count = 0; count < 3; count++) {
                Check.equal(next(consumer).getRedeliveryCount(), count);
            }
            consumer.close();
        }
    }

    @Scenario
    static void countsSurviveAKill(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var producer = stage.producing().create();
        send(producer, "bad");
        var consumer = stage.consuming(SubscriptionType.Shared).isAckReceiptEnabled(true)
                .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS).subscribe();
        for (int count = 0; count < 3; count++) {
            consumer.negativeAcknowledge(next(consumer));
        }
        Check.equal(next(consumer).getRedeliveryCount(), 3);
        // The answer to a later ack means that what the subscription counted before is on disk.
        send(producer, "later");
        consumer.acknowledge(next(consumer));
        stage.killBroker();
        var again = next(consumer);
        Check.equal(text(again) + again.getRedeliveryCount(), "bad3");
        expectSilence(consumer);
    }

    @Scenario
    static void whatALeavingConsumerHeldIsNotCounted(Stage stage) throws Exception {
        send(stage.producing().create(), numbers(0, 10));
        var leaving = stage.consuming(SubscriptionType.Shared).subscribe();
        take(leaving, 10);
        var staying = stage.consuming(SubscriptionType.Shared).subscribe();
        leaving.close();
        for (var message : take(staying, 10)) {
            Check.equal(message.getRedeliveryCount(), 0);
        }
    }

    @Scenario
    static void aNackOfOneOfABatchLeavesItsAcknowledgedSiblingsAway(Stage stage) throws Exception {
        sendBatch(stage.batching(), numbers(0, 4));
        var consumer = stage.consuming(SubscriptionType.Shared).enableBatchIndexAcknowledgment(true)
                .isAckReceiptEnabled(true).negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
        var messages = take(consumer, 4);
        Stage.acknowledge(consumer, messages.subList(0, 3));
        consumer.negativeAcknowledge(messages.get(3));
        var again = next(consumer);
        Check.equal(text(again) + again.getRedeliveryCount(), "31");
        expectSilence(consumer);
    }

    /** Messages that were on their way when the consumer asked are of an older epoch: dropped, not doubled. */
    @Scenario
    static void askingForAllUnackedBringsEachOnceAndInOrder(Stage stage) throws Exception {
        send(stage.producing().create(), numbers(0, 200));
        for (var type : SINGLE) {
            var consumer = stage.consuming(type).subscriptionName(type.name())
                    .receiverQueueSize(50).isAckReceiptEnabled(true).subscribe();
            for (int round = 0; round < 5; round++) {
                Check.equal(texts(take(consumer, 20)), List.of(numbers(0, 20)));
                awaitQueued(consumer, 30);
                consumer.redeliverUnacknowledgedMessages();
            }
            Stage.acknowledge(consumer, take(consumer, 10));
            awaitQueued(consumer, 40);
            consumer.redeliverUnacknowledgedMessages();
            Check.equal(texts(take(consumer, 190)), List.of(numbers(10, 200)));
            expectSilence(consumer);
        }
    }

    /** A message that is just coming in while the client forgets its queue may survive that. */
    private static void awaitQueued(Consumer<?> consumer, int messages) {
        while (consumer.getStats().getMsgNumInReceiverQueue() < messages) {
            Thread.onSpinWait();
        }
    }

    @Scenario
    static void aNackOnASingleConsumerBringsAllUnackedAgain(Stage stage) throws Exception {
        send(stage.producing().create(), numbers(0, 5));
        for (var type : SINGLE) {
            var consumer = stage.consuming(type).subscriptionName(type.name())
                    .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).isAckReceiptEnabled(true).subscribe();
            var messages = take(consumer, 5);
            consumer.acknowledge(messages.get(0));
            consumer.acknowledge(messages.get(2));
            consumer.negativeAcknowledge(messages.get(1));
            Check.equal(texts(take(consumer, 3)), List.of("1", "3", "4"));
        }
    }

    @Scenario
    static void aConsumerAtItsUnackedLimitGoesOnAfterAcks(Stage stage) throws Exception {
        stage.takeOwnBroker("maxUnackedMessagesPerConsumer=20", "maxUnackedMessagesPerSubscription=0");
        send(stage.producing().create(), numbers(0, 100));
        var consumer = stage.consuming(SubscriptionType.Shared).isAckReceiptEnabled(true).subscribe();
        var messages = take(consumer, 20);
        expectSilence(consumer);
        for (int rest = 80; rest > 0; rest -= 20) {
            Stage.acknowledge(consumer, messages);
            messages = take(consumer, 20);
        }
        Check.equal(text(messages.get(19)), "99");
    }
}
