package magnetar.clients;

import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.text;

import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException.ConsumerBusyException;
import org.apache.pulsar.client.api.PulsarClientException.NotAllowedException;
import org.apache.pulsar.client.api.PulsarClientException.ProducerBlockedQuotaExceededError;
import org.apache.pulsar.client.api.PulsarClientException.ProducerBlockedQuotaExceededException;
import org.apache.pulsar.client.api.PulsarClientException.ProducerBusyException;
import org.apache.pulsar.client.api.SubscriptionType;

/** What the client makes of policies that hold. */
final class Policies {
    private Policies() {}

    private static void quota(Stage stage, String policy) throws Exception {
        stage.consuming(SubscriptionType.Shared).subscribe().close();
        stage.rest("POST", stage.path() + "/backlogQuota",
                "{\"limitSize\": 1000, \"policy\": \"" + policy + "\"}");
        var producer = stage.producing().create();
        send(producer, "x".repeat(2000));
        producer.close();
        stage.rest("GET", "brokers/backlog-quota-check", "");
    }

    /** It tries again until then. */
    private static PulsarClient impatient(Stage stage) throws Exception {
        return stage.newClient(builder -> builder.operationTimeout(10, TimeUnit.SECONDS));
    }

    @Scenario
    static void aFullQuotaRefusesProducersUntilItIsRead(Stage stage) throws Exception {
        quota(stage, "producer_exception");
        Check.refused(ProducerBlockedQuotaExceededException.class, () -> impatient(stage).newProducer()
                .topic(stage.topic).create());
        var consumer = stage.consuming(SubscriptionType.Shared).isAckReceiptEnabled(true).subscribe();
        consumer.acknowledge(next(consumer));
        send(stage.newClient().newProducer().topic(stage.topic).create(), "again");
        Check.equal(text(next(consumer)), "again");
    }

    @Scenario
    static void aFullQuotaHoldsProducers(Stage stage) throws Exception {
        quota(stage, "producer_request_hold");
        Check.refused(ProducerBlockedQuotaExceededError.class, () -> impatient(stage).newProducer()
                .topic(stage.topic).create());
    }

    @Scenario
    static void aHeldProducerGoesOnWhenThereIsRoom(Stage stage) throws Exception {
        var consumer = stage.consuming(SubscriptionType.Shared).isAckReceiptEnabled(true).subscribe();
        stage.rest("POST", stage.path() + "/backlogQuota",
                "{\"limitSize\": 1000, \"policy\": \"producer_request_hold\"}");
        var producer = stage.producing().create();
        send(producer, "x".repeat(2000));
        stage.rest("GET", "brokers/backlog-quota-check", "");
        var held = producer.sendAsync("held".getBytes());
        consumer.acknowledge(next(consumer));
        held.get(Stage.WAIT_S, TimeUnit.SECONDS);
        Check.equal(text(next(consumer)), "held");
    }

    @Scenario
    static void limitsOfProducersAndConsumers(Stage stage) throws Exception {
        stage.producing().create();
        stage.rest("POST", stage.path() + "/maxProducers", "1");
        stage.rest("POST", stage.path() + "/maxConsumers", "1");
        Check.refused(ProducerBusyException.class, () -> stage.producing().create());
        stage.consuming(SubscriptionType.Shared).subscribe();
        Check.refused(ConsumerBusyException.class, () -> stage.consuming(SubscriptionType.Shared).subscribe());
        stage.rest("DELETE", stage.path() + "/maxProducers", "");
        stage.producing().create();
    }

    @Scenario
    static void typesOfSubscriptions(Stage stage) throws Exception {
        stage.rest("PUT", stage.path(), "");
        stage.rest("POST", stage.path() + "/subscriptionTypesEnabled", "[\"Shared\"]");
        Check.refused(NotAllowedException.class, () -> stage.consuming(SubscriptionType.Failover).subscribe());
        stage.consuming(SubscriptionType.Shared).subscribe();
    }

    @Scenario
    static void expiredMessagesAreNotReceived(Stage stage) throws Exception {
        var producer = stage.producing().create();
        stage.consuming(SubscriptionType.Key_Shared).subscribe().close();
        send(producer, numbers(0, 10));
        stage.rest("POST", stage.path() + "/subscription/sub/expireMessages/0", "");
        send(producer, "fresh");
        Check.equal(text(next(stage.consuming(SubscriptionType.Key_Shared).subscribe())), "fresh");
    }

    @Scenario
    static void aThrottledProducerIsNotRefused(Stage stage) throws Exception {
        var consumer = stage.consuming(SubscriptionType.Shared).subscribe();
        stage.rest("POST", stage.path() + "/publishRate",
                "{\"publishThrottlingRateInMsg\": 20, \"publishThrottlingRateInByte\": -1}");
        send(stage.producing().create(), numbers(0, 40));
        Stage.acknowledge(consumer, Stage.take(consumer, 40));
    }

    @Scenario
    static void aThrottledSubscriptionGetsEverything(Stage stage) throws Exception {
        send(stage.producing().create(), numbers(0, 40));
        stage.rest("POST", stage.path() + "/subscriptionDispatchRate",
                "{\"dispatchThrottlingRateInMsg\": 20, \"dispatchThrottlingRateInByte\": -1, \"ratePeriodInSecond\": 1}");
        var consumer = stage.consuming(SubscriptionType.Shared).subscribe();
        Stage.acknowledge(consumer, Stage.take(consumer, 40));
    }
}
