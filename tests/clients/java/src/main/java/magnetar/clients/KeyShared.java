package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.sendKeyed;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;
import static magnetar.clients.Stage.texts;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.util.Murmur3_32Hash;

/** Each key at one consumer at a time. */
final class KeyShared {
    private static final SubscriptionType TYPE = SubscriptionType.Key_Shared;
    private static final int KEYS = 50;
    private static final int ROUNDS = 10;

    private KeyShared() {}

    /** ROUNDS messages of each of KEYS keys; payloads count up within a key. */
    private static void publish(Producer<byte[]> producer) throws Exception {
        for (int round = 0; round < ROUNDS; round++) {
            for (int key = 0; key < KEYS; key++) {
                producer.newMessage().key("key" + key).value(("" + round).getBytes()).sendAsync();
            }
        }
        producer.flush();
    }

    /** Who received what of a key, in order. */
    private static final class Journal {
        private final Map<String, List<String>> names = new ConcurrentHashMap<>();
        private final Map<String, List<String>> payloads = new ConcurrentHashMap<>();
        private final CountDownLatch missing = new CountDownLatch(KEYS * ROUNDS);

        void listen(Consumer<byte[]> consumer, Message<byte[]> message) {
            names.computeIfAbsent(message.getKey(), key -> new ArrayList<>()).add(consumer.getConsumerName());
            payloads.computeIfAbsent(message.getKey(), key -> new ArrayList<>()).add(text(message));
            consumer.acknowledgeAsync(message);
            missing.countDown();
        }

        void expectOneConsumerAndOrderForEachKey() throws Exception {
            Check.that(missing.await(Stage.WAIT_S, TimeUnit.SECONDS), missing.getCount() + " did not come");
            names.forEach((key, all) -> Check.equal(new HashSet<>(all).size(), 1));
            payloads.forEach((key, all) -> Check.equal(all, List.of(numbers(0, ROUNDS))));
            Check.that(names.values().stream().map(all -> all.get(0)).distinct().count() > 1,
                    "one consumer got every key");
        }
    }

    private static void divide(Stage stage, KeySharedPolicy policy, Producer<byte[]> producer) throws Exception {
        var journal = new Journal();
        for (int consumer = 0; consumer < 3; consumer++) {
            stage.consuming(stage.newClient(), TYPE).keySharedPolicy(policy)
                    .consumerName("c" + consumer).messageListener(journal::listen).subscribe();
        }
        publish(producer);
        journal.expectOneConsumerAndOrderForEachKey();
    }

    @Scenario
    static void keysAreDivided(Stage stage) throws Exception {
        divide(stage, KeySharedPolicy.autoSplitHashRange(), stage.producing().create());
    }

    @Scenario
    static void keysAreDividedWithoutStrictOrder(Stage stage) throws Exception {
        var policy = KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(true);
        divide(stage, policy, stage.producing().create());
    }

    @Scenario
    static void keysOfBatchesByKey(Stage stage) throws Exception {
        divide(stage, KeySharedPolicy.autoSplitHashRange(), stage.producing().enableBatching(true)
                .batcherBuilder(BatcherBuilder.KEY_BASED).create());
    }

    @Scenario
    static void rangesByHalving(Stage stage) throws Exception {
        stage.takeOwnBroker("subscriptionKeySharedUseConsistentHashing=false");
        divide(stage, KeySharedPolicy.autoSplitHashRange(), stage.producing().create());
    }

    @Scenario
    static void stickyRangesGetTheirKeys(Stage stage) throws Exception {
        var halves = List.of(Range.of(0, 29_999), Range.of(30_000, 65_535));
        var consumers = new ArrayList<Consumer<byte[]>>();
        for (var half : halves) {
            consumers.add(stage.consuming(stage.newClient(), TYPE)
                    .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(half)).subscribe());
        }
        var expected = List.of(new HashSet<String>(), new HashSet<String>());
        var producer = stage.producing().create();
        for (int key = 0; key < KEYS; key++) {
            int slot = Murmur3_32Hash.getInstance().makeHash(("key" + key).getBytes()) % 65_536;
            expected.get(slot < 30_000 ? 0 : 1).add("key" + key);
            sendKeyed(producer, "key" + key, "x");
        }
        for (int half = 0; half < 2; half++) {
            var keys = new HashSet<String>();
            for (var message : take(consumers.get(half), expected.get(half).size())) {
                keys.add(message.getKey());
            }
            Check.equal(keys, expected.get(half));
            expectSilence(consumers.get(half));
        }
    }

    @Scenario
    static void stickyRangesMayNotOverlap(Stage stage) throws Exception {
        stage.consuming(TYPE).keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(0, 100)))
                .subscribe();
        Check.refused(PulsarClientException.ConsumerAssignException.class,
                () -> stage.consuming(stage.newClient(), TYPE)
                        .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(100, 200)))
                        .subscribe());
        stage.consuming(stage.newClient(), TYPE)
                .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(101, 200))).subscribe();
    }

    @Scenario
    static void policiesDoNotMix(Stage stage) throws Exception {
        stage.consuming(TYPE).subscribe();
        for (var other : List.of(KeySharedPolicy.stickyHashRange().ranges(Range.of(0, 65_535)),
                KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(true))) {
            Check.refused(PulsarClientException.class,
                    () -> stage.consuming(stage.newClient(), TYPE).keySharedPolicy(other).subscribe());
        }
    }

    @Scenario
    static void keysOutsideEveryStickyRangeWait(Stage stage) throws Exception {
        // key1 has slot 293 of 65536.
        var low = stage.consuming(TYPE)
                .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(0, 292))).subscribe();
        sendKeyed(stage.producing().create(), "key1", "waits");
        expectSilence(low);
        var right = stage.consuming(stage.newClient(), TYPE)
                .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(293, 293))).subscribe();
        Check.equal(texts(take(right, 1)), List.of("waits"));
    }

    /** Keys that the newcomer takes over wait until the first consumer has done with them; others flow. */
    @Scenario
    static void aKeyThatMovesWaitsForItsAcks(Stage stage) throws Exception {
        var producer = stage.producing().create();
        var first = stage.consuming(TYPE).consumerName("first").isAckReceiptEnabled(true).subscribe();
        for (int key = 0; key < KEYS; key++) {
            sendKeyed(producer, "key" + key, "0");
        }
        var held = take(first, KEYS);
        var newcomer = stage.consuming(stage.newClient(), TYPE).consumerName("newcomer").subscribe();
        for (int key = 0; key < KEYS; key++) {
            sendKeyed(producer, "key" + key, "1");
        }
        expectSilence(newcomer);
        var kept = new HashSet<String>();
        for (Message<byte[]> message; (message = first.receive(2, TimeUnit.SECONDS)) != null; ) {
            Check.equal(text(message), "1");
            kept.add(message.getKey());
        }
        Check.that(!kept.isEmpty() && kept.size() < KEYS, kept + " stayed");
        Stage.acknowledge(first, held);
        var moved = new HashSet<String>();
        for (var message : take(newcomer, KEYS - kept.size())) {
            moved.add(message.getKey());
        }
        moved.retainAll(kept);
        Check.that(moved.isEmpty(), () -> moved + " went to both");
    }

    @Scenario
    static void withoutStrictOrderAKeyMovesAtOnce(Stage stage) throws Exception {
        var policy = KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(true);
        var producer = stage.producing().create();
        var first = stage.consuming(TYPE).keySharedPolicy(policy).subscribe();
        for (int key = 0; key < KEYS; key++) {
            sendKeyed(producer, "key" + key, "0");
        }
        take(first, KEYS);
        var newcomer = stage.consuming(stage.newClient(), TYPE).keySharedPolicy(policy).subscribe();
        for (int key = 0; key < KEYS; key++) {
            sendKeyed(producer, "key" + key, "1");
        }
        Check.equal(text(next(newcomer)), "1");
    }

    @Scenario
    static void whatALeavingConsumerHeldMovesInOrder(Stage stage) throws Exception {
        var leaving = stage.consuming(TYPE).subscribe();
        var producer = stage.producing().create();
        publish(producer);
        take(leaving, KEYS * ROUNDS);
        var staying = stage.consuming(stage.newClient(), TYPE).subscribe();
        leaving.close();
        var byKey = new HashMap<String, List<String>>();
        for (var message : take(staying, KEYS * ROUNDS)) {
            byKey.computeIfAbsent(message.getKey(), key -> new ArrayList<>()).add(text(message));
        }
        byKey.forEach((key, all) -> Check.equal(all, List.of(numbers(0, ROUNDS))));
    }

    @Scenario
    static void orderOfAKeyOutlivesAKill(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var consumer = stage.consuming(TYPE).isAckReceiptEnabled(true).subscribe();
        publish(stage.producing().create());
        Stage.acknowledge(consumer, take(consumer, KEYS * ROUNDS).stream()
                .filter(message -> Integer.parseInt(text(message)) < 4).toList());
        stage.killBroker();
        var byKey = new HashMap<String, List<String>>();
        for (var message : take(consumer, KEYS * (ROUNDS - 4))) {
            byKey.computeIfAbsent(message.getKey(), key -> new ArrayList<>()).add(text(message));
        }
        byKey.forEach((key, all) -> Check.equal(all, List.of(numbers(4, ROUNDS))));
        expectSilence(consumer);
    }

    @Scenario
    static void theOrderingKeyComesBeforeTheKey(Stage stage) throws Exception {
        var receivers = new LinkedBlockingQueue<String>();
        for (int number = 0; number < 2; number++) {
            stage.consuming(stage.newClient(), TYPE).consumerName("c" + number)
                    .messageListener((consumer, message) -> receivers.add(consumer.getConsumerName())).subscribe();
        }
        var producer = stage.producing().create();
        for (int key = 0; key < KEYS; key++) {
            producer.newMessage().key("key" + key).orderingKey("one".getBytes()).value("x".getBytes()).send();
        }
        var names = new HashSet<String>();
        for (int key = 0; key < KEYS; key++) {
            names.add(String.valueOf(receivers.poll(Stage.WAIT_S, TimeUnit.SECONDS)));
        }
        Check.that(names.size() == 1 && !names.contains("null"), names::toString);
    }

    @Scenario
    static void aNackedMessageComesAgainToTheOwnerOfItsKey(Stage stage) throws Exception {
        var consumers = new ArrayList<Consumer<byte[]>>();
        for (int number = 0; number < 2; number++) {
            consumers.add(stage.consuming(stage.newClient(), TYPE).consumerName("c" + number)
                    .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS).subscribe());
        }
        sendKeyed(stage.producing().create(), "k", "x");
        var receiving = consumers.stream().map(Consumer::receiveAsync).toList();
        CompletableFuture.anyOf(receiving.toArray(CompletableFuture[]::new)).get(Stage.WAIT_S, TimeUnit.SECONDS);
        int place = receiving.get(0).isDone() ? 0 : 1;
        var owner = consumers.get(place);
        var message = receiving.get(place).get();
        for (int count = 1; count < 4; count++) {
            owner.negativeAcknowledge(message);
            message = next(owner);
            Check.equal(message.getRedeliveryCount(), count);
        }
    }

    /** Four seats whose consumers come, do some messages and go: each message once, each key in order. */
    @Scenario
    static void consumersComeAndGo(Stage stage) throws Exception {
        int each = 60;
        var handled = new ConcurrentHashMap<String, Integer>();
        var missing = new CountDownLatch(KEYS * each);
        var wrong = new ConcurrentLinkedQueue<String>();
        var seats = new ArrayList<Thread>();
        for (int seat = 0; seat < 4; seat++) {
            var client = stage.newClient();
            int share = 30 + 20 * seat;
            var thread = new Thread(() -> {
                while (missing.getCount() > 0 && wrong.isEmpty()) {
                    try (var consumer = stage.consuming(client, TYPE).receiverQueueSize(50)
                            .isAckReceiptEnabled(true).acknowledgmentGroupTime(0, TimeUnit.SECONDS).subscribe()) {
                        for (int count = 0; count < share && missing.getCount() > 0; count++) {
                            var message = consumer.receive(Stage.QUIET_MS, TimeUnit.MILLISECONDS);
                            if (message != null) {
                                int number = Integer.parseInt(text(message));
                                var before = handled.put(message.getKey(), number);
                                if (number != (before == null ? 0 : before + 1)) {
                                    wrong.add(message.getKey() + ": " + number + " after " + before);
                                }
                                consumer.acknowledge(message);
                                missing.countDown();
                            }
                        }
                    } catch (PulsarClientException failed) {
                        wrong.add(failed.toString());
                    }
                }
            });
            thread.start();
            seats.add(thread);
        }
        var producer = stage.producing().create();
        for (int number = 0; number < each; number++) {
            for (int key = 0; key < KEYS; key++) {
                producer.newMessage().key("key" + key).value(("" + number).getBytes()).sendAsync();
            }
        }
        producer.flush();
        boolean all = missing.await(3 * Stage.WAIT_S, TimeUnit.SECONDS);
        Check.that(wrong.isEmpty(), wrong::toString);
        Check.that(all, missing.getCount() + " did not come");
        for (var thread : seats) {
            thread.join();
        }
    }
}
