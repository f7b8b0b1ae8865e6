package magnetar.clients;

import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.SubscriptionType;

/** The Java snippets of docs/messaging.md, word for word. */
final class Page {
    private Page() {}

    @Scenario
    static void reconsumeLater(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var client = stage.client();
        var producer = client.newProducer().topic("mails").create();
        client.newConsumer().topic("mails").subscriptionName("patient")
                .subscriptionType(SubscriptionType.Shared).subscribe().close();
        producer.send("hello".getBytes());

        var consumer = client.newConsumer()
                .topic("mails").subscriptionName("patient").subscriptionType(SubscriptionType.Shared)
                .enableRetry(true)
                .deadLetterPolicy(DeadLetterPolicy.builder()
                        .maxRedeliverCount(2).initialSubscriptionName("undertaker").build())
                .subscribe();
        var message = consumer.receive();
        consumer.reconsumeLater(message, 1, TimeUnit.SECONDS);

        for (int retries = 1; retries <= 2; retries++) {
            var again = Stage.next(consumer);
            Check.equal(again.getTopicName(), "persistent://public/default/mails-patient-RETRY");
            consumer.reconsumeLater(again, 1, TimeUnit.MILLISECONDS);
        }
        var grave = client.newConsumer().topic("mails-patient-DLQ").subscriptionName("undertaker").subscribe();
        Check.equal(Stage.text(Stage.next(grave)), "hello");
    }
}
