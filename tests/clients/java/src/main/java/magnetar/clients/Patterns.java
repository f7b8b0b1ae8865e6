package magnetar.clients;

import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.text;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/** Consumers of a pattern of topics. */
final class Patterns {
    private static final String NAMESPACE = "public/default/";
    private static final int NEVER_S = 3600;

    private Patterns() {}

    @Scenario
    static void aNewTopicIsHeardOfWithoutAsking(Stage stage) throws Exception {
        var prefix = prefix();
        send(producer(stage, prefix + "one"), "first");
        var consumer = consumer(stage, prefix + ".*", NEVER_S);
        expect(consumer, "first");
        send(producer(stage, prefix + "two"), "second");
        expect(consumer, "second");
        send(producer(stage, "x" + prefix + "three"), "of another name");
        Stage.expectSilence(consumer);
    }

    @Scenario
    static void aTopicThatComesAnewIsHeardOfAgain(Stage stage) throws Exception {
        var prefix = prefix();
        var consumer = consumer(stage, prefix + ".*", NEVER_S);
        for (int life = 0; life < 3; life++) {
            var producer = producer(stage, prefix + "one");
            send(producer, "life " + life);
            expect(consumer, "life " + life);
            producer.close();
            stage.rest("DELETE", "persistent/" + NAMESPACE + prefix + "one?force=true", "");
        }
    }

    @Scenario
    static void newPartitionsAreHeardOf(Stage stage) throws Exception {
        var prefix = prefix();
        var consumer = consumer(stage, prefix + ".*", NEVER_S);
        stage.rest("PUT", "persistent/" + NAMESPACE + prefix + "parted/partitions", "2");
        var producer = producer(stage, prefix + "parted");
        Set<String> topics = new HashSet<>();
        for (int number = 0; topics.size() < 2; number++) {
            send(producer, Integer.toString(number));
            var message = next(consumer);
            topics.add(message.getTopicName());
            consumer.acknowledge(message);
        }
    }

    @Scenario
    static void aPatternThatTheBrokerCannotMatchIsAskedFor(Stage stage) throws Exception {
        var prefix = prefix();
        send(producer(stage, prefix + "one"), "first");
        var consumer = consumer(stage, prefix + "(?!two).*", 1);
        expect(consumer, "first");
        send(producer(stage, prefix + "two"), "of another name");
        send(producer(stage, prefix + "three"), "second");
        expect(consumer, "second");
    }

    /** Short, for brokers match patterns of up to 50 characters. */
    private static String prefix() {
        return "p" + Long.toHexString(System.nanoTime()) + "-";
    }

    private static Producer<byte[]> producer(Stage stage, String local) throws PulsarClientException {
        return stage.client().newProducer().topic("persistent://" + NAMESPACE + local).enableBatching(false).create();
    }

    private static Consumer<byte[]> consumer(Stage stage, String pattern, int askEverySeconds) throws PulsarClientException {
        return stage.newClient().newConsumer()
                .topicsPattern(Pattern.compile("persistent://" + NAMESPACE + pattern))
                .patternAutoDiscoveryPeriod(askEverySeconds, TimeUnit.SECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .subscriptionName("sub").subscribe();
    }

    private static void expect(Consumer<byte[]> consumer, String payload) throws Exception {
        var message = next(consumer);
        Check.equal(text(message), payload);
        consumer.acknowledge(message);
    }
}
