package magnetar.clients;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Authentication;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.PulsarClientException.AuthenticationException;

/** Credentials that expire while their clients are connected, and busy. */
final class SecureRenewals {
    private static final int SECONDS = 5;

    /** Of each connection, on average. */
    private static final int RENEWALS = 2;

    private SecureRenewals() {}

    /** Messages by number on many topics, sent and received at the same time as fast as they go. */
    private static final class Load {
        private final List<String> topics;
        private final List<Producer<byte[]>> producers = new ArrayList<>();
        private final Map<String, Integer> next = new ConcurrentHashMap<>();
        private final Map<String, String> wrong = new ConcurrentHashMap<>();
        private final boolean mayRepeat;
        private int sent;

        Load(PulsarClient client, List<String> topics, boolean mayRepeat) throws Exception {
            this.topics = topics;
            this.mayRepeat = mayRepeat;
            for (var topic : topics) {
                next.put(topic, 0);
                client.newConsumer().topic(topic).subscriptionName("sub")
                        .messageListener((consumer, message) -> received(topic, consumer, message)).subscribe();
                producers.add(client.newProducer().topic(topic).enableBatching(false)
                        .maxPendingMessages(20).blockIfQueueFull(true).sendTimeout(0, TimeUnit.SECONDS).create());
            }
        }

        private void received(String topic, Consumer<byte[]> consumer, Message<byte[]> message) {
            int number = Integer.parseInt(Stage.text(message));
            int expected = next.get(topic);
            if (number == expected) {
                next.put(topic, expected + 1);
            } else if (number > expected || !mayRepeat) {
                wrong.putIfAbsent(topic, number + " came instead of " + expected);
            }
            consumer.acknowledgeAsync(message);
        }

        void sendMore() {
            for (var producer : producers) {
                producer.sendAsync(Integer.toString(sent).getBytes()).exceptionally(failure -> {
                    wrong.putIfAbsent(producer.getTopic(), failure.toString());
                    return null;
                });
            }
            sent++;
        }

        void expectAll() throws Exception {
            for (var producer : producers) {
                producer.flush();
            }
            for (var topic : topics) {
                Check.soon(() -> wrong.containsKey(topic) ? sent : next.get(topic), sent);
            }
            Check.equal(wrong, Map.of());
        }

        /** The address of each producer's connection, as the broker has it. */
        Map<String, String> connections(PulsarAdmin admin) throws Exception {
            var found = new TreeMap<String, String>();
            for (var topic : topics) {
                found.put(topic, admin.topics().getStats(topic).getPublishers().get(0).getAddress());
            }
            return found;
        }
    }

    /** Counts how often the client asks for credentials: for each connection, and for each challenge. */
    private static Authentication counting(Authentication original, AtomicInteger asked) {
        return (Authentication) Proxy.newProxyInstance(SecureRenewals.class.getClassLoader(),
                new Class<?>[] {Authentication.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("getAuthData")) {
                        asked.incrementAndGet();
                    }
                    try {
                        return method.invoke(original, arguments);
                    } catch (InvocationTargetException failed) {
                        throw failed.getCause();
                    }
                });
    }

    @Scenario
    static void credentialsAreRenewedOnBusyConnections(Stage stage) throws Exception {
        var broker = new SecureBroker(stage);
        new Parts()
                .add("token", () -> renewed(broker, "token",
                        AuthenticationFactory.token(() -> broker.token(SecureBroker.ROLE, SECONDS))))
                .add("oauth2", () -> renewed(broker, "oauth2", broker.oauth2("shortIssuer", "clientSecretFile")))
                .add("a supplier that fails once", () -> failsOnce(broker))
                .add("a token that nobody renews", () -> neverRenewed(broker))
                .play();
    }

    private static void renewed(SecureBroker broker, String name, Authentication authentication) throws Exception {
        var asked = new AtomicInteger();
        var load = new Load(broker.client(counting(authentication, asked)), own(broker, name), false);
        try (var admin = broker.admin(broker.superUser())) {
            var connections = load.connections(admin);
            int enough = asked.get() + RENEWALS * Set.copyOf(connections.values()).size();
            while (asked.get() < enough) {
                load.sendMore();
            }
            load.expectAll();
            Check.equal(load.connections(admin), connections);
        }
    }

    private static List<String> own(SecureBroker broker, String name) {
        return broker.topics().stream().map(topic -> topic + name).toList();
    }

    /** The broker disconnects it, and it comes back; what was under way may be there twice, and nothing is lost. */
    private static void failsOnce(SecureBroker broker) throws Exception {
        var supplied = new AtomicInteger();
        var topic = own(broker, "late").subList(0, 1);
        var client = broker.client(AuthenticationFactory.token(() -> {
            int number = supplied.incrementAndGet();
            return broker.token(SecureBroker.ROLE, number == 2 ? -60 : SECONDS);
        }));
        var load = new Load(client, topic, true);
        while (supplied.get() < 5) {
            load.sendMore();
        }
        load.expectAll();
    }

    private static void neverRenewed(SecureBroker broker) throws Exception {
        var topic = own(broker, "never").get(0);
        var client = broker.client(AuthenticationFactory.token(broker.token(SecureBroker.ROLE, SECONDS)));
        var producer = client.newProducer().topic(topic).sendTimeout(SECONDS, TimeUnit.SECONDS).create();
        Check.refused(PulsarClientException.class, () -> {
            while (true) {
                producer.send("a".getBytes());
            }
        });
        Check.refused(AuthenticationException.class, () -> client.newProducer().topic(topic + "-other").create());
        Check.refused(AuthenticationException.class,
                () -> client.newConsumer().topic(topic).subscriptionName("sub").subscribe());
    }
}
