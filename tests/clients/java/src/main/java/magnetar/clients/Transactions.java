package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;
import static magnetar.clients.Stage.texts;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/** Messages and acknowledgements of a transaction take effect together, or not at all. */
final class Transactions {
    private static final long LONG_S = 600;
    private static final long SHORT_S = 5;

    /** How many messages the soak moves; the environment may ask for more. */
    private static final int SOAK =
            Integer.parseInt(System.getenv().getOrDefault("SOAK_TRANSACTIONS", "16"));
    private static final int KILL_EVERY = 3;
    private static final int ABORT_EVERY = 5;

    /** For each message, on average, before a failure counts: a transaction that was left open times out first. */
    private static final long MOST_S = 12 * SHORT_S;
    private static final List<SubscriptionType> SINGLE_ACKS =
            List.of(SubscriptionType.Shared, SubscriptionType.Key_Shared, SubscriptionType.Exclusive);

    private Transactions() {}

    private static PulsarClient clientOf(Stage stage) throws Exception {
        return stage.newClient(builder -> builder.enableTransaction(true));
    }

    private static Transaction begin(PulsarClient client, long seconds) throws Exception {
        return client.newTransaction().withTransactionTimeout(seconds, TimeUnit.SECONDS).build()
                .get(Stage.WAIT_S, TimeUnit.SECONDS);
    }

    private static void commit(Transaction transaction) throws Exception {
        transaction.commit().get(2 * Stage.WAIT_S, TimeUnit.SECONDS);
    }

    private static void abort(Transaction transaction) throws Exception {
        transaction.abort().get(2 * Stage.WAIT_S, TimeUnit.SECONDS);
    }

    /** The client has producers in transactions wait for as long as it takes. */
    private static Producer<byte[]> producing(PulsarClient client, String topic) throws Exception {
        return client.newProducer().topic(topic).enableBatching(false)
                .sendTimeout(0, TimeUnit.SECONDS).create();
    }

    private static void sendIn(Transaction transaction, Producer<byte[]> producer, String... payloads)
            throws Exception {
        for (var payload : payloads) {
            producer.newMessage(transaction).value(payload.getBytes()).send();
        }
    }

    private static Consumer<byte[]> consuming(PulsarClient client, String topic, SubscriptionType type)
            throws Exception {
        return client.newConsumer().topic(topic).subscriptionName(type.name()).subscriptionType(type)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
                .enableBatchIndexAcknowledgment(true).subscribe();
    }

    private static void acknowledgeIn(
            Transaction transaction, Consumer<byte[]> consumer, List<Message<byte[]>> messages)
            throws Exception {
        for (var message : messages) {
            consumer.acknowledgeAsync(message.getMessageId(), transaction)
                    .get(Stage.WAIT_S, TimeUnit.SECONDS);
        }
    }

    @Scenario
    static void messagesToSeveralTopicsAppearWithTheCommit(Stage stage) throws Exception {
        var client = clientOf(stage);
        var other = stage.topic + "-other";
        for (var type : SubscriptionType.values()) {
            consuming(client, stage.topic, type).close();
            consuming(client, other, type).close();
        }
        var transaction = begin(client, LONG_S);
        sendIn(transaction, producing(client, stage.topic), numbers(0, 5));
        sendIn(transaction, producing(client, other), numbers(5, 10));
        var early = consuming(client, stage.topic, SubscriptionType.Shared);
        expectSilence(early);
        commit(transaction);
        Check.equal(texts(take(early, 5)), List.of(numbers(0, 5)));
        early.close();
        for (var type : SubscriptionType.values()) {
            Check.equal(texts(take(consuming(client, stage.topic, type), 5)), List.of(numbers(0, 5)));
            Check.equal(texts(take(consuming(client, other, type), 5)), List.of(numbers(5, 10)));
        }
    }

    @Scenario
    static void abortedMessagesNeverAppear(Stage stage) throws Exception {
        var client = clientOf(stage);
        var consumers = List.of(
                consuming(client, stage.topic, SubscriptionType.Shared),
                consuming(client, stage.topic, SubscriptionType.Failover));
        var producer = producing(client, stage.topic);
        var transaction = begin(client, LONG_S);
        send(producer, "before");
        sendIn(transaction, producer, numbers(0, 5));
        send(producer, "behind");
        for (var consumer : consumers) {
            Check.equal(text(next(consumer)), "before");
            expectSilence(consumer);
        }
        abort(transaction);
        for (var consumer : consumers) {
            Check.equal(text(next(consumer)), "behind");
            expectSilence(consumer);
        }
    }

    @Scenario
    static void aForgottenTransactionIsAborted(Stage stage) throws Exception {
        var client = clientOf(stage);
        var producer = producing(client, stage.topic);
        var transaction = begin(client, 2);
        sendIn(transaction, producer, "forgotten");
        send(producer, "behind");
        var consumer = consuming(client, stage.topic, SubscriptionType.Exclusive);
        Check.equal(text(next(consumer)), "behind");
        Check.refused(Exception.class, () -> commit(transaction));
    }

    @Scenario
    static void committedAcknowledgementsStay(Stage stage) throws Exception {
        acknowledgesSeven(stage, Transactions::commit, numbers(7, 10));
    }

    @Scenario
    static void abortedAcknowledgementsAreDeliveredAgain(Stage stage) throws Exception {
        acknowledgesSeven(stage, Transactions::abort, numbers(0, 10));
    }

    private interface Ending {
        void of(Transaction transaction) throws Exception;
    }

    /** Seven of ten messages are acknowledged in a transaction; what is left once it has ended so. */
    private static void acknowledgesSeven(Stage stage, Ending ending, String[] left) throws Exception {
        var client = clientOf(stage);
        send(producing(client, stage.topic), numbers(0, 10));
        for (var type : SINGLE_ACKS) {
            var consumer = consuming(client, stage.topic, type);
            var messages = take(consumer, 10);
            var transaction = begin(client, LONG_S);
            acknowledgeIn(transaction, consumer, messages.subList(0, 7));
            ending.of(transaction);
            consumer.close();
            var again = consuming(client, stage.topic, type);
            Check.equal(texts(take(again, left.length)), List.of(left));
            expectSilence(again);
            again.close();
        }
    }

    @Scenario
    static void aMessageIsAcknowledgedInOneTransactionOnly(Stage stage) throws Exception {
        var client = clientOf(stage);
        send(producing(client, stage.topic), "contested");
        var consumer = consuming(client, stage.topic, SubscriptionType.Shared);
        var message = next(consumer);
        var first = begin(client, LONG_S);
        var second = begin(client, LONG_S);
        acknowledgeIn(first, consumer, List.of(message));
        Check.refused(PulsarClientException.TransactionConflictException.class,
                () -> acknowledgeIn(second, consumer, List.of(message)));
        abort(second);
        commit(first);
    }

    @Scenario
    static void consumeAndProduceIsOneStep(Stage stage) throws Exception {
        var client = clientOf(stage);
        var output = stage.topic + "-output";
        send(producing(client, stage.topic), numbers(0, 20));
        var input = consuming(client, stage.topic, SubscriptionType.Shared);
        var producer = producing(client, output);
        var tried = new HashSet<String>();
        for (int done = 0; done < 20; ) {
            var message = next(input);
            var transaction = begin(client, LONG_S);
            sendIn(transaction, producer, text(message) + "!");
            acknowledgeIn(transaction, input, List.of(message));
            // The first try of every third message fails: the broker delivers it again.
            if (tried.add(text(message)) && Integer.parseInt(text(message)) % 3 == 2) {
                abort(transaction);
            } else {
                commit(transaction);
                done++;
            }
        }
        var results = consuming(client, output, SubscriptionType.Exclusive);
        var found = texts(take(results, 20)).stream().sorted().toList();
        var expected = Arrays.stream(numbers(0, 20)).map(text -> text + "!").sorted().toList();
        Check.equal(found, expected);
        expectSilence(results);
        input.close();
        expectSilence(consuming(client, stage.topic, SubscriptionType.Shared));
    }

    @Scenario
    static void anOpenTransactionGoesOnAfterAKill(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var client = clientOf(stage);
        var producer = producing(client, stage.topic);
        var committed = begin(client, LONG_S);
        var aborted = begin(client, LONG_S);
        sendIn(committed, producer, numbers(0, 3));
        sendIn(aborted, producer, "never");
        stage.killBroker();
        sendIn(committed, producer, numbers(3, 6));
        commit(committed);
        abort(aborted);
        var consumer = consuming(client, stage.topic, SubscriptionType.Exclusive);
        Check.equal(texts(take(consumer, 6)), List.of(numbers(0, 6)));
        expectSilence(consumer);
    }

    @Scenario
    static void anEndedTransactionTakesNothingMore(Stage stage) throws Exception {
        var client = clientOf(stage);
        var producer = producing(client, stage.topic);
        var transaction = begin(client, LONG_S);
        sendIn(transaction, producer, "first");
        commit(transaction);
        Check.equal(transaction.getState(), Transaction.State.COMMITTED);
        Check.refused(PulsarClientException.class, () -> sendIn(transaction, producer, "late"));
        var consumer = consuming(client, stage.topic, SubscriptionType.Exclusive);
        Check.equal(text(next(consumer)), "first");
        expectSilence(consumer);
    }

    /** The broker is killed at every step of a transaction in turn; each message arrives once. */
    @Scenario
    static void everyMessageIsMovedOnceWhateverIsKilled(Stage stage) throws Exception {
        // A message whose receipt was lost is sent again: the client leaves it to the broker to drop one.
        stage.takeOwnBroker("brokerDeduplicationEnabled=true");
        var client = clientOf(stage);
        send(producing(client, stage.topic), numbers(0, SOAK));
        var input = consuming(client, stage.topic, SubscriptionType.Shared);
        var output = stage.topic + "-output";
        var results = consuming(client, output, SubscriptionType.Exclusive);
        var producer = producing(client, output);
        // By id: what is not acknowledged comes again after each kill.
        var found = new HashMap<MessageId, String>();
        var deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(MOST_S * SOAK);
        for (int tries = 0; found.size() < SOAK; ) {
            var message = input.receive(Stage.QUIET_MS, TimeUnit.MILLISECONDS);
            if (message != null) {
                tries++;
                var steps = Step.values();
                var killed = tries % KILL_EVERY == 0 ? steps[tries / KILL_EVERY % steps.length] : null;
                try {
                    move(stage, client, producer, input, message, killed, tries % ABORT_EVERY == 0);
                } catch (PulsarClientException | ExecutionException | TimeoutException failed) {
                    if (System.nanoTime() > deadline) {
                        throw failed;
                    }
                    // It ended, or times out: the broker delivers the message again unless it was committed.
                    input.negativeAcknowledge(message);
                }
            }
            for (Message<byte[]> result; (result = results.receive(1, TimeUnit.MILLISECONDS)) != null; ) {
                found.put(result.getMessageId(), text(result));
            }
        }
        Check.equal(found.values().stream().sorted().toList(), Arrays.stream(numbers(0, SOAK)).sorted().toList());
        expectSilence(results);
        // A message that was delivered twice before it was moved may wait in the consumer still, and a
        // new one gets what is not acknowledged.
        input.close();
        expectSilence(consuming(client, stage.topic, SubscriptionType.Shared));
    }

    /** Before which the broker is killed, or while it commits. */
    private enum Step { SEND, ACKNOWLEDGE, COMMIT, END }

    private static void move(
            Stage stage, PulsarClient client, Producer<byte[]> producer, Consumer<byte[]> input,
            Message<byte[]> message, Step killed, boolean aborted) throws Exception {
        var transaction = begin(client, SHORT_S);
        killBefore(Step.SEND, killed, stage);
        sendIn(transaction, producer, text(message));
        killBefore(Step.ACKNOWLEDGE, killed, stage);
        acknowledgeIn(transaction, input, List.of(message));
        killBefore(Step.COMMIT, killed, stage);
        if (aborted) {
            abort(transaction);
            return;
        }
        var ended = transaction.commit();
        killBefore(Step.END, killed, stage);
        ended.get(2 * Stage.WAIT_S, TimeUnit.SECONDS);
    }

    private static void killBefore(Step step, Step killed, Stage stage) throws Exception {
        if (step == killed) {
            stage.killBroker();
        }
    }
}
