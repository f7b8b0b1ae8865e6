package magnetar.clients;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.PulsarClientSharedResources.SharedResource;
import org.apache.pulsar.client.api.PulsarClientSharedResources;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.common.policies.data.TenantInfo;

/** What one scenario plays on: a broker, a topic of its own, clients that are closed behind it. */
final class Stage {
    static final int WAIT_S = 60;
    static final int QUIET_MS = 300;

    /** Threads that serve every client: to end those of one takes the client two seconds. */
    private static final PulsarClientSharedResources THREADS =
            PulsarClientSharedResources.builder().resourceTypes(SharedResource.values()).build();

    private static final Map<String, PulsarAdmin> ADMINS = new ConcurrentHashMap<>();

    /** The part of a topic's name behind the namespace. */
    final String name;

    final String topic;
    private final Teller teller;
    private final List<PulsarClient> clients = new CopyOnWriteArrayList<>();
    private String serviceUrl;
    private String httpUrl;

    Stage(String serviceUrl, String httpUrl, String topic, Teller teller) {
        this.serviceUrl = serviceUrl;
        this.httpUrl = httpUrl;
        this.topic = topic;
        this.teller = teller;
        this.name = topic.substring(topic.lastIndexOf('/') + 1);
    }

    /** Play on a broker with these settings, alone: it may be killed. Before any client is made. */
    void takeOwnBroker(String... settings) throws IOException {
        var urls = teller.ask("broker " + String.join(" ", settings)).split(" ");
        serviceUrl = urls[0];
        httpUrl = urls[1];
    }

    /** Ask the program that started this one. */
    String ask(String what) throws IOException {
        return teller.ask(what);
    }

    /** SIGKILL to the own broker, and a new start on the same data and ports. */
    void killBroker() throws IOException {
        teller.ask("kill");
    }

    /** Compact the topic; it has been on return. */
    void compact() throws IOException {
        teller.ask("compact " + topic);
    }

    /** The asyncio client receives the first value of a topic, and sends the one it expects. */
    void shareValue(String topic, String kind) throws IOException {
        teller.ask("value " + topic + " " + kind);
    }

    /** A request to the admin API; fails unless it succeeds. */
    void rest(String method, String path, String json) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(httpUrl + "/admin/v2/" + path))
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(json))
                .build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        Check.that(answer.statusCode() < 300, method + " " + path + ": " + answer.statusCode() + answer.body());
    }

    /** The topic in paths of the admin API. */
    String path() {
        return "persistent/public/default/" + name;
    }

    /** One for each broker, for all scenarios. */
    PulsarAdmin admin() {
        return ADMINS.computeIfAbsent(httpUrl, url -> {
            try {
                return PulsarAdmin.builder().serviceHttpUrl(url).build();
            } catch (PulsarClientException failed) {
                throw new IllegalStateException(failed);
            }
        });
    }

    /** The broker's own. */
    String cluster() throws PulsarAdminException {
        return admin().tenants().getTenantInfo("public").getAllowedClusters().iterator().next();
    }

    /** With the name of the topic. */
    String newTenant() throws PulsarAdminException {
        admin().tenants().createTenant(name, TenantInfo.builder().allowedClusters(Set.of(cluster())).build());
        return name;
    }

    void createPartitions(int count) throws Exception {
        rest("PUT", path() + "/partitions", Integer.toString(count));
    }

    /** A client with a connection of its own. */
    PulsarClient newClient() throws PulsarClientException {
        return newClient(builder -> builder);
    }

    PulsarClient newClient(UnaryOperator<ClientBuilder> adapt) throws PulsarClientException {
        var client = adapt.apply(PulsarClient.builder().serviceUrl(serviceUrl).sharedResources(THREADS)).build();
        clients.add(client);
        return client;
    }

    /** The first client. */
    PulsarClient client() throws PulsarClientException {
        return clients.isEmpty() ? newClient() : clients.get(0);
    }

    ProducerBuilder<byte[]> producing() throws PulsarClientException {
        return client().newProducer().topic(topic).enableBatching(false);
    }

    /** A producer whose batches end when it is flushed. */
    Producer<byte[]> batching() throws PulsarClientException {
        return client().newProducer().topic(topic).enableBatching(true)
                .batchingMaxPublishDelay(1, TimeUnit.MINUTES).create();
    }

    /** Of the first client, from the earliest message on. */
    ConsumerBuilder<byte[]> consuming(SubscriptionType type) throws PulsarClientException {
        return consuming(client(), type);
    }

    ConsumerBuilder<byte[]> consuming(PulsarClient client, SubscriptionType type) {
        return client.newConsumer().topic(topic).subscriptionName("sub").subscriptionType(type)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    static List<MessageId> send(Producer<byte[]> producer, String... payloads) throws Exception {
        var receipts = new ArrayList<MessageId>();
        for (var payload : payloads) {
            receipts.add(producer.send(payload.getBytes()));
        }
        return receipts;
    }

    static void sendKeyed(Producer<byte[]> producer, String key, String... payloads) throws Exception {
        for (var payload : payloads) {
            producer.newMessage().key(key).value(payload.getBytes()).send();
        }
    }

    /** All as one batch of a producer that batches. */
    static void sendBatch(Producer<byte[]> producer, String... payloads) throws Exception {
        var sent = Arrays.stream(payloads)
                .map(payload -> producer.sendAsync(payload.getBytes())).toList();
        producer.flush();
        for (var receipt : sent) {
            receipt.get(WAIT_S, TimeUnit.SECONDS);
        }
    }

    /** "FROM", ..., "TO - 1". */
    static String[] numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toArray(String[]::new);
    }

    static Message<byte[]> next(Consumer<byte[]> consumer) throws Exception {
        var message = consumer.receive(WAIT_S, TimeUnit.SECONDS);
        Check.that(message != null, "no message came");
        return message;
    }

    static List<Message<byte[]>> take(Consumer<byte[]> consumer, int count) throws Exception {
        var messages = new ArrayList<Message<byte[]>>();
        for (int taken = 0; taken < count; taken++) {
            var message = consumer.receive(WAIT_S, TimeUnit.SECONDS);
            Check.that(message != null, "only " + texts(messages) + " came, not " + count);
            messages.add(message);
        }
        return messages;
    }

    /** Acknowledge all of them, which go out together, and wait for the answers if the consumer asks for any. */
    static void acknowledge(Consumer<byte[]> consumer, List<Message<byte[]>> messages) throws Exception {
        var answers = messages.stream().map(consumer::acknowledgeAsync).toArray(CompletableFuture[]::new);
        CompletableFuture.allOf(answers).get(WAIT_S, TimeUnit.SECONDS);
    }

    static String text(Message<byte[]> message) {
        return new String(message.getData());
    }

    static List<String> texts(List<Message<byte[]>> messages) {
        return messages.stream().map(Stage::text).toList();
    }

    /** Nothing is delivered for a while. */
    static void expectSilence(Consumer<byte[]> consumer) throws Exception {
        var message = consumer.receive(QUIET_MS, TimeUnit.MILLISECONDS);
        Check.that(message == null, () -> "there came " + text(message));
    }

    /** End all clients; later ones are new. */
    void close() throws PulsarClientException {
        for (var client : clients) {
            client.close();
        }
        clients.clear();
    }
}
