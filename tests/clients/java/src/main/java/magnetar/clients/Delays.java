package magnetar.clients;

import static magnetar.clients.Stage.expectSilence;
import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.SubscriptionType;

/** Messages that are to be delivered later. */
final class Delays {
    private static final List<SubscriptionType> DELAYING =
            List.of(SubscriptionType.Shared, SubscriptionType.Key_Shared);

    private Delays() {}

    private static void takeStrictBroker(Stage stage) throws Exception {
        stage.takeOwnBroker("isDelayedDeliveryDeliverAtTimeStrict=true", "delayedDeliveryTickTimeMillis=50");
    }

    @Scenario
    static void neverEarlyAndOthersOvertake(Stage stage) throws Exception {
        takeStrictBroker(stage);
        for (var type : DELAYING) {
            var topic = stage.topic + type.name();
            var producer = stage.client().newProducer().topic(topic).create();
            var consumer = stage.client().newConsumer().topic(topic).subscriptionName("sub")
                    .subscriptionType(type).subscribe();
            long due = System.currentTimeMillis() + 1500;
            producer.newMessage().deliverAt(due).value("at".getBytes()).sendAsync();
            producer.newMessage().deliverAfter(2500, TimeUnit.MILLISECONDS).value("after".getBytes()).sendAsync();
            producer.sendAsync("now".getBytes());
            producer.flush();
            var dueTimes = new HashMap<>(Map.of("now", 0L, "at", due, "after", due + 1000));
            while (!dueTimes.isEmpty()) {
                var came = text(next(consumer));
                Check.that(System.currentTimeMillis() >= dueTimes.remove(came), came + " is early");
            }
            expectSilence(consumer);
        }
    }

    @Scenario
    static void manyComeAtTheirTimes(Stage stage) throws Exception {
        takeStrictBroker(stage);
        var consumer = stage.consuming(SubscriptionType.Shared).subscribe();
        var producer = stage.producing().create();
        long now = System.currentTimeMillis();
        for (int number = 4; number >= 0; number--) {
            producer.newMessage().deliverAt(now + 1500 + 500 * number).value(("" + number).getBytes()).sendAsync();
        }
        producer.flush();
        var found = new HashSet<Integer>();
        while (found.size() < 5) {
            int number = Integer.parseInt(text(next(consumer)));
            Check.that(System.currentTimeMillis() >= now + 1500 + 500 * number, "early");
            Check.that(found.add(number), number + " came twice");
        }
    }

    @Scenario
    static void singleConsumersDoNotWait(Stage stage) throws Exception {
        stage.producing().create().newMessage().deliverAfter(1, TimeUnit.HOURS).value("x".getBytes()).send();
        for (var type : List.of(SubscriptionType.Exclusive, SubscriptionType.Failover)) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).subscribe();
            Check.equal(text(next(consumer)), "x");
        }
    }

    @Scenario
    static void aTimeInThePastIsNow(Stage stage) throws Exception {
        var consumer = stage.consuming(SubscriptionType.Shared).subscribe();
        stage.producing().create().newMessage().deliverAt(1).value("x".getBytes()).send();
        Check.equal(text(next(consumer)), "x");
    }

    @Scenario
    static void theyOutliveAKill(Stage stage) throws Exception {
        takeStrictBroker(stage);
        var consumer = stage.consuming(SubscriptionType.Shared).subscribe();
        long due = System.currentTimeMillis() + 3000;
        stage.producing().create().newMessage().deliverAt(due).value("x".getBytes()).send();
        stage.killBroker();
        Check.equal(text(next(consumer)), "x");
        Check.that(System.currentTimeMillis() >= due, "early");
    }

    @Scenario
    static void thousandsOfThemAreDivided(Stage stage) throws Exception {
        takeStrictBroker(stage);
        var first = stage.consuming(SubscriptionType.Shared).subscribe();
        var second = stage.consuming(SubscriptionType.Shared).subscribe();
        var producer = stage.producing().create();
        long due = System.currentTimeMillis() + 1500;
        for (int number = 0; number < 2000; number++) {
            producer.newMessage().deliverAt(due).value(("" + number).getBytes()).sendAsync();
        }
        producer.flush();
        // How they are divided depends on how many were sent before they were due.
        var got = new HashSet<String>();
        var taken = new int[2];
        var giveUpAt = System.nanoTime() + TimeUnit.SECONDS.toNanos(Stage.WAIT_S);
        for (int turn = 0; got.size() < 2000; turn = 1 - turn) {
            Check.that(System.nanoTime() < giveUpAt, () -> "only " + got.size() + " came");
            var message = List.of(first, second).get(turn).receive(Stage.QUIET_MS, TimeUnit.MILLISECONDS);
            if (message != null) {
                Check.that(System.currentTimeMillis() >= due, "early");
                Check.that(got.add(text(message)), text(message) + " came twice");
                taken[turn]++;
            }
        }
        Check.that(taken[0] > 0 && taken[1] > 0, "one consumer got all");
    }

    @Scenario
    static void switchedOffTheyComeAtOnce(Stage stage) throws Exception {
        stage.takeOwnBroker("delayedDeliveryEnabled=false");
        var consumer = stage.consuming(SubscriptionType.Shared).subscribe();
        stage.producing().create().newMessage().deliverAfter(1, TimeUnit.HOURS).value("x".getBytes()).send();
        Check.equal(text(next(consumer)), "x");
    }
}
