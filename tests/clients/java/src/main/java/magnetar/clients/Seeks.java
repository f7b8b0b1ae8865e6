package magnetar.clients;

import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.sendBatch;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;
import static magnetar.clients.Stage.texts;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.SubscriptionType;

/** Going back and forth on every type. */
final class Seeks {
    private Seeks() {}

    @Scenario
    static void byIdEarliestAndLatest(Stage stage) throws Exception {
        var producer = stage.producing().create();
        var ids = send(producer, numbers(0, 10));
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).subscribe();
            Stage.acknowledge(consumer, take(consumer, 10));
            consumer.seek(ids.get(6));
            Check.equal(texts(take(consumer, 3)), List.of(numbers(7, 10)));
            consumer.seek(MessageId.earliest);
            Check.equal(texts(take(consumer, 10)), List.of(numbers(0, 10)));
            consumer.seek(MessageId.latest);
            Stage.expectSilence(consumer);
            var id = send(producer, "new").get(0);
            Check.equal(text(next(consumer)), "new");
            consumer.close();
            var inclusive = stage.consuming(type).subscriptionName(type.name() + "-inclusive")
                    .startMessageIdInclusive().subscribe();
            inclusive.seek(id);
            Check.equal(text(next(inclusive)), "new");
            inclusive.close();
        }
    }

    @Scenario
    static void byTime(Stage stage) throws Exception {
        var producer = stage.producing().create();
        send(producer, numbers(0, 5));
        long published = 0;
        var reference = stage.consuming(SubscriptionType.Exclusive).subscribe();
        for (var message : take(reference, 5)) {
            published = message.getPublishTime();
        }
        while (System.currentTimeMillis() <= published) {
            Thread.onSpinWait();
        }
        send(producer, numbers(5, 10));
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).subscribe();
            take(consumer, 10);
            consumer.seek(published + 1);
            Check.equal(texts(take(consumer, 5)), List.of(numbers(5, 10)));
            consumer.seek(1L);
            Check.equal(texts(take(consumer, 10)), List.of(numbers(0, 10)));
        }
    }

    @Scenario
    static void byAFunctionOfThePartition(Stage stage) throws Exception {
        stage.createPartitions(3);
        var last = new ArrayList<String>();
        for (int partition = 0; partition < 3; partition++) {
            var producer = stage.client().newProducer().topic(stage.topic + "-partition-" + partition).create();
            send(producer, partition + "a", partition + "b");
            last.add(partition + "b");
        }
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).subscribe();
            var ids = new HashMap<String, MessageId>();
            for (var message : take(consumer, 6)) {
                if (text(message).endsWith("a")) {
                    ids.put(message.getTopicName(), message.getMessageId());
                }
            }
            consumer.seek(ids::get);
            Check.equal(new HashSet<>(texts(take(consumer, 3))), new HashSet<>(last));
            Stage.expectSilence(consumer);
        }
    }

    @Scenario
    static void intoABatch(Stage stage) throws Exception {
        sendBatch(stage.batching(), numbers(0, 10));
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).subscribe();
            var fourth = take(consumer, 10).get(4);
            consumer.seek(fourth.getMessageId());
            Check.equal(texts(take(consumer, 5)), List.of(numbers(5, 10)));
            Stage.expectSilence(consumer);
        }
    }

    @Scenario
    static void aSeekForgetsAcks(Stage stage) throws Exception {
        send(stage.producing().create(), numbers(0, 10));
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).isAckReceiptEnabled(true).subscribe();
            Stage.acknowledge(consumer, take(consumer, 10).stream()
                    .filter(message -> Integer.parseInt(text(message)) % 2 == 0).toList());
            consumer.seek(MessageId.earliest);
            Check.equal(texts(take(consumer, 10)), List.of(numbers(0, 10)));
        }
    }
}
