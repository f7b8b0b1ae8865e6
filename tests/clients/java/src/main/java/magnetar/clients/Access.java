package magnetar.clients;

import static magnetar.clients.Stage.numbers;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.texts;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClientException.ProducerBusyException;
import org.apache.pulsar.client.api.PulsarClientException.ProducerFencedException;
import org.apache.pulsar.client.api.SubscriptionType;

/** Who may publish beside whom. */
final class Access {
    private Access() {}

    private static ProducerBuilder<byte[]> another(Stage stage, ProducerAccessMode mode) throws Exception {
        return stage.newClient().newProducer().topic(stage.topic).accessMode(mode);
    }

    /** One that waits for its turn; the broker knows of it, as it has refused another behind it. */
    private static CompletableFuture<Producer<byte[]>> waiting(Stage stage) throws Exception {
        var client = stage.newClient();
        var waiting = client.newProducer().topic(stage.topic)
                .accessMode(ProducerAccessMode.WaitForExclusive).createAsync();
        Check.refused(ProducerBusyException.class, () -> client.newProducer().topic(stage.topic).create());
        return waiting;
    }

    @Scenario
    static void anExclusiveProducerIsAlone(Stage stage) throws Exception {
        var holder = another(stage, ProducerAccessMode.Exclusive).create();
        Check.refused(ProducerFencedException.class,
                () -> another(stage, ProducerAccessMode.Exclusive).create());
        Check.refused(ProducerBusyException.class, () -> another(stage, ProducerAccessMode.Shared).create());
        send(holder, "a");
        holder.close();
        send(another(stage, ProducerAccessMode.Shared).create(), "b");
        Check.refused(ProducerFencedException.class,
                () -> another(stage, ProducerAccessMode.Exclusive).create());
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 2)), List.of("a", "b"));
    }

    @Scenario
    static void whoWaitsIsLetInInTurn(Stage stage) throws Exception {
        var holder = another(stage, ProducerAccessMode.Exclusive).create();
        var first = waiting(stage);
        send(holder, "holder");
        Check.that(!first.isDone(), "it did not wait");
        var second = another(stage, ProducerAccessMode.WaitForExclusive).createAsync();
        holder.close();
        var promoted = first.get(Stage.WAIT_S, TimeUnit.SECONDS);
        send(promoted, "first");
        Check.that(!second.isDone(), "two are exclusive");
        promoted.close();
        send(second.get(Stage.WAIT_S, TimeUnit.SECONDS), "second");
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 3)), List.of("holder", "first", "second"));
    }

    @Scenario
    static void fencingTakesOverForGood(Stage stage) throws Exception {
        var old = another(stage, ProducerAccessMode.Exclusive).create();
        send(old, "old");
        var waiting = waiting(stage);
        var taker = another(stage, ProducerAccessMode.ExclusiveWithFencing).create();
        send(taker, "new");
        Check.refused(ProducerFencedException.class, () -> waiting.get(Stage.WAIT_S, TimeUnit.SECONDS));
        Check.refused(ProducerFencedException.class, () -> old.send("late".getBytes()));
        send(taker, "newer");
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 3)), List.of("old", "new", "newer"));
        Stage.expectSilence(consumer);
    }

    @Scenario
    static void theHolderComesBackAfterAKillAndStillExcludes(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var holder = another(stage, ProducerAccessMode.Exclusive).create();
        send(holder, numbers(0, 3));
        stage.killBroker();
        send(holder, numbers(3, 6));
        Check.refused(ProducerFencedException.class,
                () -> another(stage, ProducerAccessMode.Exclusive).create());
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 6)), List.of(numbers(0, 6)));
    }

    @Scenario
    static void whoWasFencedStaysOutAfterAKill(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var old = another(stage, ProducerAccessMode.Exclusive).create();
        var taker = another(stage, ProducerAccessMode.ExclusiveWithFencing).create();
        send(taker, "a");
        taker.close();
        stage.killBroker();
        Check.refused(ProducerFencedException.class, () -> old.send("late".getBytes()));
        send(another(stage, ProducerAccessMode.Shared).create(), "b");
        var consumer = stage.consuming(SubscriptionType.Exclusive).subscribe();
        Check.equal(texts(take(consumer, 2)), List.of("a", "b"));
    }

    @Scenario
    static void producersOfOneName(Stage stage) throws Exception {
        var holder = stage.producing().producerName("me").create();
        Check.refused(ProducerBusyException.class,
                () -> stage.newClient().newProducer().topic(stage.topic).producerName("me").create());
        holder.close();
        stage.newClient().newProducer().topic(stage.topic).producerName("me").create();
    }
}
