package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.texts;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.SubscriptionType;

/** A message that is sent again with its sequence id is stored once. */
final class Deduplication {
    private Deduplication() {}

    private static Producer<byte[]> named(Stage stage) throws Exception {
        return stage.producing().producerName("me").create();
    }

    private static void sendNumbered(Producer<byte[]> producer, int from, int to) throws Exception {
        for (int number = from; number < to; number++) {
            producer.newMessage().sequenceId(number).value(("" + number).getBytes()).send();
        }
    }

    @Scenario
    static void anOldSequenceIdIsDropped(Stage stage) throws Exception {
        stage.takeOwnBroker("brokerDeduplicationEnabled=true");
        var producer = named(stage);
        Check.equal(producer.getLastSequenceId(), -1L);
        sendNumbered(producer, 0, 10);
        sendNumbered(producer, 5, 15);
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 15)), List.of(numbers(0, 15)));
        expectSilence(consumer);
    }

    @Scenario
    static void aProducerThatComesBackLearnsItsLastSequenceId(Stage stage) throws Exception {
        stage.takeOwnBroker("brokerDeduplicationEnabled=true");
        var first = named(stage);
        sendNumbered(first, 0, 10);
        first.close();
        Check.equal(named(stage).getLastSequenceId(), 9L);
        stage.close();
        stage.killBroker();
        var second = named(stage);
        Check.equal(second.getLastSequenceId(), 9L);
        sendNumbered(second, 0, 12);
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 12)), List.of(numbers(0, 12)));
        expectSilence(consumer);
    }

    @Scenario
    static void batchesSentAgainAreDropped(Stage stage) throws Exception {
        stage.takeOwnBroker("brokerDeduplicationEnabled=true");
        for (int round = 0; round < 2; round++) {
            var producer = stage.producing().producerName("me").enableBatching(true)
                    .batchingMaxPublishDelay(1, TimeUnit.MINUTES).create();
            for (int number = 0; number < 10; number++) {
                producer.newMessage().sequenceId(number).value(("" + number).getBytes()).sendAsync();
            }
            producer.flush();
            producer.close();
        }
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 10)), List.of(numbers(0, 10)));
        expectSilence(consumer);
    }

    @Scenario
    static void chunkedMessagesSentAgainAreDropped(Stage stage) throws Exception {
        stage.takeOwnBroker("brokerDeduplicationEnabled=true");
        var producer = stage.producing().producerName("me").enableChunking(true).chunkMaxMessageSize(100).create();
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        for (var sequenceId : List.of(0, 1, 0, 1, 2)) {
            producer.newMessage().sequenceId(sequenceId).value(("" + sequenceId).repeat(1000).getBytes()).send();
        }
        Check.equal(texts(take(consumer, 3)), List.of("0".repeat(1000), "1".repeat(1000), "2".repeat(1000)));
        expectSilence(consumer);
    }

    @Scenario
    static void offByDefaultNothingIsDropped(Stage stage) throws Exception {
        var producer = named(stage);
        sendNumbered(producer, 0, 2);
        sendNumbered(producer, 0, 2);
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 4)), List.of("0", "1", "0", "1"));
    }

    @Scenario
    static void aNamespaceSwitchesItOn(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var producer = named(stage);
        sendNumbered(producer, 0, 2);
        stage.rest("POST", "namespaces/public/default/deduplication", "true");
        sendNumbered(producer, 2, 5);
        sendNumbered(producer, 2, 6);
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 6)), List.of(numbers(0, 6)));
        expectSilence(consumer);
    }
}
