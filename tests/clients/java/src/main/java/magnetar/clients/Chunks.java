package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.impl.TypedMessageBuilderImpl;

/** Messages that are sent in pieces. */
final class Chunks {
    private static final int CHUNK = 1000;

    private Chunks() {}

    private static Producer<byte[]> chunking(Stage stage) throws Exception {
        return stage.newClient().newProducer().topic(stage.topic).enableBatching(false)
                .enableChunking(true).chunkMaxMessageSize(CHUNK).create();
    }

    /** A letter, many times: some ten chunks. */
    private static String large(int number) {
        return Character.toString('a' + number % 26).repeat(10 * CHUNK) + number;
    }

    /** The first of two chunks, whose second never comes. */
    private static void sendOrphan(Producer<byte[]> producer, String uuid) throws Exception {
        var message = (TypedMessageBuilderImpl<byte[]>) producer.newMessage().value("half".getBytes());
        message.getMetadataBuilder().setUuid(uuid).setChunkId(0).setNumChunksFromMsg(2)
                .setTotalChunkMsgSize(8);
        message.send();
    }

    @Scenario
    static void eachTypeReceivesThemWhole(Stage stage) throws Exception {
        var producer = chunking(stage);
        for (int number = 0; number < 5; number++) {
            producer.newMessage().key("k" + number).value(large(number).getBytes()).send();
        }
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).subscribe();
            for (int number = 0; number < 5; number++) {
                var message = next(consumer);
                Check.equal(text(message), large(number));
                consumer.acknowledge(message);
            }
            consumer.close();
            expectSilence(stage.consuming(type).subscriptionName(type.name()).subscribe());
        }
    }

    /** Chunks of four producers mix in the topic; three consumers share them. */
    @Scenario
    static void sharedConsumersGetThemWhole(Stage stage) throws Exception {
        for (var type : List.of(SubscriptionType.Shared, SubscriptionType.Key_Shared)) {
            var received = new ConcurrentLinkedQueue<String>();
            var missing = new CountDownLatch(80);
            for (int number = 0; number < 3; number++) {
                stage.consuming(stage.newClient(), type).subscriptionName(type.name())
                        .messageListener((consumer, message) -> {
                            received.add(text(message));
                            consumer.acknowledgeAsync(message);
                            missing.countDown();
                        }).subscribe();
            }
            if (type == SubscriptionType.Shared) {
                var producers = new ArrayList<Producer<byte[]>>();
                for (int number = 0; number < 4; number++) {
                    producers.add(chunking(stage));
                }
                for (int number = 0; number < 80; number++) {
                    producers.get(number % 4).newMessage().key("k" + number)
                            .value(large(number).getBytes()).sendAsync();
                }
                for (var producer : producers) {
                    producer.flush();
                }
            }
            Check.that(missing.await(Stage.WAIT_S, TimeUnit.SECONDS),
                    () -> type + ": " + missing.getCount() + " did not come");
            var expected = new HashSet<String>();
            for (int number = 0; number < 80; number++) {
                expected.add(large(number));
            }
            Check.equal(received.size(), 80);
            Check.equal(new HashSet<>(received), expected);
        }
    }

    @Scenario
    static void aNackedOneComesAgainWhole(Stage stage) throws Exception {
        chunking(stage).send(large(1).getBytes());
        var consumer = stage.consuming(SubscriptionType.Shared)
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
        consumer.negativeAcknowledge(next(consumer));
        var again = next(consumer);
        Check.equal(text(again), large(1));
        consumer.acknowledge(again);
        expectSilence(consumer);
    }

    @Scenario
    static void whatALeavingConsumerHeldMovesWhole(Stage stage) throws Exception {
        var producer = chunking(stage);
        for (int number = 0; number < 5; number++) {
            producer.send(large(number).getBytes());
        }
        var leaving = stage.consuming(SubscriptionType.Shared).subscribe();
        take(leaving, 5);
        var staying = stage.consuming(stage.newClient(), SubscriptionType.Shared).subscribe();
        leaving.close();
        for (int number = 0; number < 5; number++) {
            Check.equal(text(next(staying)), large(number));
        }
    }

    /** Chunks without the rest of their message block no other, be there many more than a consumer keeps. */
    @Scenario
    static void orphansHoldNobodyUp(Stage stage) throws Exception {
        var whole = stage.producing().create();
        for (int number = 0; number < 20; number++) {
            sendOrphan(whole, "orphan" + number);
        }
        send(whole, "plain");
        chunking(stage).newMessage().key("k").value(large(3).getBytes()).send();
        for (var type : SubscriptionType.values()) {
            var first = stage.consuming(type).subscriptionName(type.name()).receiverQueueSize(5)
                    .maxPendingChunkedMessage(3).autoAckOldestChunkedMessageOnQueueFull(true).subscribe();
            var got = List.of(text(next(first)), text(next(first)));
            Check.equal(new HashSet<>(got), new HashSet<>(List.of("plain", large(3))));
        }
    }

    @Scenario
    static void pendingOnesBeyondTheLimitOfTheClientAreAckedOrComeAgain(Stage stage) throws Exception {
        var producer = stage.producing().create();
        for (int number = 0; number < 4; number++) {
            sendOrphan(producer, "orphan" + number);
        }
        send(producer, "plain");
        var acking = stage.consuming(SubscriptionType.Shared).subscriptionName("acking")
                .maxPendingChunkedMessage(1).autoAckOldestChunkedMessageOnQueueFull(true).subscribe();
        var holding = stage.consuming(SubscriptionType.Shared).subscriptionName("holding")
                .maxPendingChunkedMessage(1).autoAckOldestChunkedMessageOnQueueFull(false).subscribe();
        for (var consumer : List.of(acking, holding)) {
            var plain = next(consumer);
            Check.equal(text(plain), "plain");
            consumer.acknowledge(plain);
            expectSilence(consumer);
        }
    }

    @Scenario
    static void incompleteOnesExpire(Stage stage) throws Exception {
        sendOrphan(stage.producing().create(), "orphan");
        var consumer = stage.consuming(SubscriptionType.Shared)
                .expireTimeOfIncompleteChunkedMessage(200, TimeUnit.MILLISECONDS).subscribe();
        expectSilence(consumer);
        chunking(stage).send(large(9).getBytes());
        Check.equal(text(next(consumer)), large(9));
    }

    @Scenario
    static void aSeekToOneBringsItWhole(Stage stage) throws Exception {
        var producer = chunking(stage);
        var ids = new ArrayList<MessageId>();
        for (int number = 0; number < 4; number++) {
            ids.add(producer.send(large(number).getBytes()));
        }
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name())
                    .startMessageIdInclusive().subscribe();
            take(consumer, 4);
            consumer.seek(ids.get(2));
            Check.equal(text(next(consumer)), large(2));
            Check.equal(text(next(consumer)), large(3));
        }
    }
}
