package magnetar.clients;

import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.sendBatch;
import static magnetar.clients.Stage.text;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionMode;
import org.apache.pulsar.client.api.SubscriptionType;

/** Reading without a durable subscription. */
final class Readers {
    private Readers() {}

    private static List<String> readToTheEnd(Reader<byte[]> reader) throws Exception {
        var read = new ArrayList<String>();
        while (reader.hasMessageAvailable()) {
            var message = reader.readNext(Stage.WAIT_S, TimeUnit.SECONDS);
            Check.that(message != null, "only " + read + " came");
            read.add(text(message));
        }
        return read;
    }

    @Scenario
    static void fromTheBeginningTheMiddleAndTheEnd(Stage stage) throws Exception {
        var ids = send(stage.producing().create(), numbers(0, 10));
        var builder = stage.client().newReader().topic(stage.topic);
        Check.equal(readToTheEnd(builder.startMessageId(MessageId.earliest).create()), List.of(numbers(0, 10)));
        Check.equal(readToTheEnd(builder.startMessageId(ids.get(4)).create()), List.of(numbers(5, 10)));
        Check.equal(readToTheEnd(builder.startMessageId(ids.get(4)).startMessageIdInclusive().create()),
                List.of(numbers(4, 10)));
        var latest = stage.client().newReader().topic(stage.topic).startMessageId(MessageId.latest).create();
        Check.equal(readToTheEnd(latest), List.of());
        send(stage.producing().create(), "new");
        Check.equal(text(latest.readNext(Stage.WAIT_S, TimeUnit.SECONDS)), "new");
    }

    @Scenario
    static void fromTheMiddleOfABatch(Stage stage) throws Exception {
        sendBatch(stage.batching(), numbers(0, 10));
        var all = stage.client().newReader().topic(stage.topic).startMessageId(MessageId.earliest).create();
        MessageId fourth = null;
        for (int number = 0; number <= 4; number++) {
            fourth = all.readNext(Stage.WAIT_S, TimeUnit.SECONDS).getMessageId();
        }
        var reader = stage.client().newReader().topic(stage.topic).startMessageId(fourth).create();
        Check.equal(readToTheEnd(reader), List.of(numbers(5, 10)));
    }

    @Scenario
    static void aReaderSeeksAndReconnects(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var ids = send(stage.producing().create(), numbers(0, 10));
        var reader = stage.client().newReader().topic(stage.topic).startMessageId(MessageId.earliest).create();
        Check.equal(readToTheEnd(reader), List.of(numbers(0, 10)));
        reader.seek(ids.get(6));
        Check.equal(text(reader.readNext(Stage.WAIT_S, TimeUnit.SECONDS)), "7");
        stage.killBroker();
        Check.equal(readToTheEnd(reader), List.of("8", "9"));
    }

    @Scenario
    static void byKeyHashRange(Stage stage) throws Exception {
        var producer = stage.producing().create();
        // Slots of 65536: key1 293, key2 16548.
        Stage.sendKeyed(producer, "key1", "one");
        Stage.sendKeyed(producer, "key2", "two");
        var reader = stage.client().newReader().topic(stage.topic).startMessageId(MessageId.earliest)
                .keyHashRange(Range.of(0, 9_999)).create();
        Check.equal(text(reader.readNext(Stage.WAIT_S, TimeUnit.SECONDS)), "one");
        Check.that(reader.readNext(Stage.QUIET_MS, TimeUnit.MILLISECONDS) == null, "the other came too");
    }

    @Scenario
    static void aSubscriptionThatIsNotDurableBeginsAnew(Stage stage) throws Exception {
        var producer = stage.producing().create();
        var consumer = stage.consuming(SubscriptionType.Shared)
                .subscriptionMode(SubscriptionMode.NonDurable).subscribe();
        send(producer, "a");
        consumer.acknowledge(Stage.next(consumer));
        consumer.close();
        var again = stage.consuming(SubscriptionType.Shared)
                .subscriptionMode(SubscriptionMode.NonDurable).subscribe();
        Check.equal(text(Stage.next(again)), "a");
    }

    @Scenario
    static void aTableOfTheLatestValues(Stage stage) throws Exception {
        var producer = stage.producing().create();
        Stage.sendKeyed(producer, "x", "1", "2");
        Stage.sendKeyed(producer, "y", "3");
        try (var table = stage.client().newTableView().topic(stage.topic).create()) {
            Check.equal(table.size(), 2);
            Check.equal(new String(table.get("x")), "2");
            Check.equal(new String(table.get("y")), "3");
        }
    }
}
