package magnetar.clients;

import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.sendBatch;
import static magnetar.clients.Stage.text;

import java.util.List;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.SubscriptionType;

/** The index and the time that the broker adds to messages. */
final class BrokerMetadata {
    private static final String PACKAGE = "org.apache.pulsar.common.intercept.";
    private static final String BOTH = PACKAGE + "AppendIndexMetadataInterceptor," + PACKAGE
            + "AppendBrokerTimestampMetadataInterceptor";

    private BrokerMetadata() {}

    private static void takeBroker(Stage stage, boolean exposing) throws Exception {
        stage.takeOwnBroker("brokerEntryMetadataInterceptors=" + BOTH,
                "exposingBrokerEntryMetadataToClientEnabled=" + exposing);
    }

    /** Two messages, a batch of three, and one in three chunks. */
    private static void write(Stage stage) throws Exception {
        send(stage.producing().create(), "a", "b");
        sendBatch(stage.batching(), "c", "d", "e");
        stage.client().newProducer().topic(stage.topic).enableBatching(false).enableChunking(true)
                .chunkMaxMessageSize(1000).create().send("f".repeat(2500).getBytes());
    }

    private static void checkTime(Message<byte[]> message) {
        long time = message.getBrokerPublishTime().orElseThrow();
        Check.that(Math.abs(time - message.getPublishTime()) < 600_000, "it was stored at " + time);
    }

    @Scenario
    static void countingGoesOnAfterAKill(Stage stage) throws Exception {
        takeBroker(stage, true);
        write(stage);
        stage.killBroker();
        write(stage);
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).subscribe();
            for (long wanted : List.of(0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 15)) {
                var message = next(consumer);
                Check.equal(message.getIndex().orElseThrow(), wanted);
                checkTime(message);
            }
            consumer.close();
        }
    }

    /** Java's admin client shows the index of the entry for all messages of a batch. */
    @Scenario
    static void administratorsSeeIt(Stage stage) throws Exception {
        takeBroker(stage, false);
        write(stage);
        var topics = stage.admin().topics();
        for (long index = 0; index < 5; index++) {
            var id = (MessageIdAdv) topics.getMessageIdByIndex(stage.topic, index);
            var found = topics.getMessagesById(stage.topic, id.getLedgerId(), id.getEntryId());
            var message = found.get((int) Math.max(index - 2, 0));
            Check.equal(text(message), Character.toString('a' + (int) index));
            Check.equal(message.getIndex().orElseThrow(), index < 2 ? index : 4L);
            checkTime(message);
        }
    }

    @Scenario
    static void clientsAreSentNoneUnlessItIsExposed(Stage stage) throws Exception {
        takeBroker(stage, false);
        write(stage);
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        for (int number = 0; number < 6; number++) {
            var message = next(consumer);
            Check.that(message.getIndex().isEmpty(), "it has an index");
            Check.that(message.getBrokerPublishTime().isEmpty(), "it has the broker's time");
        }
    }
}
