package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.text;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.SubscriptionType;

/** Dead letter and retry topics, on the two types that have them. */
final class DeadLetters {
    private static final List<SubscriptionType> TYPES =
            List.of(SubscriptionType.Shared, SubscriptionType.Key_Shared);

    private DeadLetters() {}

    /** The next message of the subscription that the first dead letter created. */
    private static Message<byte[]> buried(Stage stage, String topic) throws Exception {
        Consumer<byte[]> grave = stage.client().newConsumer().topic(topic).subscriptionName("kept").subscribe();
        return next(grave);
    }

    @Scenario
    static void nackedTooOften(Stage stage) throws Exception {
        stage.producing().create().newMessage().key("k").property("colour", "red")
                .value("poison".getBytes()).send();
        for (var type : TYPES) {
            var consumer = stage.consuming(type).subscriptionName(type.name())
                    .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS)
                    .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2)
                            .initialSubscriptionName("kept").build())
                    .subscribe();
            for (int count = 0; count <= 2; count++) {
                var message = next(consumer);
                Check.equal(message.getRedeliveryCount(), count);
                consumer.negativeAcknowledge(message);
            }
            var letter = buried(stage, stage.topic + "-" + type.name() + "-DLQ");
            Check.equal(text(letter), "poison");
            Check.equal(letter.getKey(), "k");
            Check.equal(letter.getProperty("colour"), "red");
            Check.equal(letter.getProperty("REAL_TOPIC"), stage.topic);
            expectSilence(consumer);
        }
    }

    @Scenario
    static void notAcknowledgedInTimeTooOften(Stage stage) throws Exception {
        send(stage.producing().create(), "slow");
        var consumer = stage.consuming(SubscriptionType.Shared)
                .ackTimeout(1, TimeUnit.SECONDS).ackTimeoutTickTime(100, TimeUnit.MILLISECONDS)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1)
                        .deadLetterTopic(stage.topic + "-graves").initialSubscriptionName("kept").build())
                .subscribe();
        Check.equal(next(consumer).getRedeliveryCount(), 0);
        Check.equal(next(consumer).getRedeliveryCount(), 1);
        consumer.receiveAsync(); // the third delivery is for the dead letter topic
        Check.equal(text(buried(stage, stage.topic + "-graves")), "slow");
    }

    @Scenario
    static void retriedLaterUntilItIsGivenUp(Stage stage) throws Exception {
        stage.producing().create().newMessage().key("k").value("again".getBytes()).send();
        for (var type : TYPES) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).enableRetry(true)
                    .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2)
                            .initialSubscriptionName("kept").build())
                    .subscribe();
            for (int retries = 0; retries <= 2; retries++) {
                var message = next(consumer);
                Check.equal(text(message), "again");
                Check.equal(message.getKey(), "k");
                Check.equal(message.getProperties().getOrDefault("RECONSUMETIMES", "0"), "" + retries);
                consumer.reconsumeLater(message, 200, TimeUnit.MILLISECONDS);
            }
            var letter = buried(stage, stage.topic + "-" + type.name() + "-DLQ");
            Check.equal(text(letter), "again");
            Check.equal(letter.getProperty("REAL_TOPIC"), stage.topic);
            expectSilence(consumer);
        }
    }
}
