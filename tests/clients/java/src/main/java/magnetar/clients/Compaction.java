package magnetar.clients;

import static magnetar.clients.Stage.sendKeyed;
import static magnetar.clients.Stage.text;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;

/** Reading what was compacted, by readers, consumers and table views. */
final class Compaction {
    private Compaction() {}

    private static List<String> readToTheEnd(Reader<byte[]> reader) throws Exception {
        var read = new ArrayList<String>();
        while (reader.hasMessageAvailable()) {
            var message = reader.readNext(Stage.WAIT_S, TimeUnit.SECONDS);
            Check.that(message != null, "only " + read + " came");
            read.add(message.getKey() + text(message));
        }
        return read;
    }

    private static Reader<byte[]> reader(Stage stage, MessageId start) throws Exception {
        return stage.client().newReader().topic(stage.topic).readCompacted(true).startMessageId(start).create();
    }

    @Scenario
    static void aReaderGetsTheLastMessageOfEachKey(Stage stage) throws Exception {
        var producer = stage.producing().create();
        sendKeyed(producer, "a", "1");
        sendKeyed(producer, "b", "2");
        sendKeyed(producer, "a", "3");
        sendKeyed(producer, "c", "4", "");
        stage.compact();
        Check.equal(readToTheEnd(reader(stage, MessageId.earliest)), List.of("b2", "a3"));
        sendKeyed(producer, "a", "5");
        Check.equal(readToTheEnd(reader(stage, MessageId.earliest)), List.of("b2", "a3", "a5"));
        stage.compact();
        var reader = reader(stage, MessageId.earliest);
        Check.equal(readToTheEnd(reader), List.of("b2", "a5"));
        reader.seek(MessageId.earliest);
        Check.equal(readToTheEnd(reader), List.of("b2", "a5"));
    }

    @Scenario
    static void whatIsLeftOfBatches(Stage stage) throws Exception {
        var producer = stage.batching();
        var sent = new ArrayList<CompletableFuture<MessageId>>();
        for (int number = 0; number < 100; number++) {
            sent.add(producer.newMessage().key("k" + number % 7).value(Integer.toString(number).getBytes()).sendAsync());
        }
        producer.flush();
        CompletableFuture.allOf(sent.toArray(CompletableFuture[]::new)).get(Stage.WAIT_S, TimeUnit.SECONDS);
        stage.compact();
        var all = readToTheEnd(reader(stage, MessageId.earliest));
        Check.equal(all, List.of("k293", "k394", "k495", "k596", "k697", "k098", "k199"));
        Check.equal(readToTheEnd(reader(stage, sent.get(96).get())), List.of("k697", "k098", "k199"));
    }

    @Scenario
    static void aTableViewBeforeAndBehindTheHorizon(Stage stage) throws Exception {
        Producer<String> producer = stage.client().newProducer(Schema.STRING).topic(stage.topic).create();
        producer.newMessage().key("a").value("1").send();
        producer.newMessage().key("b").value("2").send();
        producer.newMessage().key("b").value(null).send();
        stage.compact();
        producer.newMessage().key("c").value("3").send();
        var view = stage.client().newTableView(Schema.STRING).topic(stage.topic).create();
        var found = new TreeMap<String, String>();
        view.forEach(found::put);
        Check.equal(found, new TreeMap<>(Map.of("a", "1", "c", "3")));
        var changed = new CompletableFuture<String>();
        view.listen((key, value) -> changed.complete(key + value));
        producer.newMessage().key("a").value("4").send();
        Check.equal(changed.get(Stage.WAIT_S, TimeUnit.SECONDS), "a4");
    }

    @Scenario
    static void aFailoverConsumerGoesOnAfterAKill(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var producer = stage.producing().create();
        sendKeyed(producer, "a", "1", "2");
        sendKeyed(producer, "b", "3");
        sendKeyed(producer, "c", "4");
        stage.compact();
        var consumer = stage.client().newConsumer().topic(stage.topic).subscriptionName("sub").readCompacted(true)
                .subscriptionType(SubscriptionType.Failover)
                .subscriptionInitialPosition(org.apache.pulsar.client.api.SubscriptionInitialPosition.Earliest)
                .isAckReceiptEnabled(true).subscribe();
        Message<byte[]> second = null;
        for (var wanted : List.of("2", "3")) {
            second = consumer.receive(Stage.WAIT_S, TimeUnit.SECONDS);
            Check.equal(text(second), wanted);
        }
        consumer.acknowledgeCumulative(second);
        consumer.close();
        stage.killBroker();
        var again = stage.client().newConsumer().topic(stage.topic).subscriptionName("sub").readCompacted(true)
                .subscriptionType(SubscriptionType.Failover).subscribe();
        Check.equal(text(again.receive(Stage.WAIT_S, TimeUnit.SECONDS)), "4");
    }
}
