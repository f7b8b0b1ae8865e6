package magnetar.clients;

import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.texts;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.admin.PulsarAdminException.NotAuthorizedException;
import org.apache.pulsar.client.api.Authentication;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.PulsarClientException.AuthenticationException;
import org.apache.pulsar.client.api.PulsarClientException.AuthorizationException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.common.policies.data.AuthAction;

/** Who is let in, and what each may do: TLS, every method of authentication, and grants. */
final class SecureClients {
    private SecureClients() {}

    @Scenario
    static void everyMethodConnects(Stage stage) throws Exception {
        var broker = new SecureBroker(stage);
        var parts = new Parts();
        for (var method : broker.methods().entrySet()) {
            for (var url : List.of("url", "webUrl", "plainUrl")) {
                if (url.equals("plainUrl") && method.getKey().equals("certificate")) {
                    continue;
                }
                parts.add(method.getKey() + " at " + url, () -> {
                    var client = broker.client(method.getValue(), url, builder -> builder);
                    publishAndReceive(broker, client, method.getKey() + url);
                });
            }
        }
        parts.play();
    }

    private static void publishAndReceive(SecureBroker broker, PulsarClient client, String subscription)
            throws Exception {
        for (var topic : broker.topics().subList(0, 3)) {
            var own = topic + subscription;
            var consumer = client.newConsumer().topic(own).subscriptionName(subscription).subscribe();
            send(client.newProducer().topic(own).create(), "a", "b");
            Check.equal(texts(take(consumer, 2)), List.of("a", "b"));
        }
    }

    /** At the binary port the error comes at once. At HTTPS the client tries again, whatever the status is. */
    @Scenario
    static void wrongExpiredAndMissingCredentialsAreRefusedForGood(Stage stage) throws Exception {
        var broker = new SecureBroker(stage);
        var wrong = new LinkedHashMap<String, Authentication>();
        wrong.put("an expired token", AuthenticationFactory.token(broker.token(SecureBroker.ROLE, -60)));
        wrong.put("a token of another key", AuthenticationFactory.token(
                SecureBroker.signed(SecureBroker.ROLE, 3600, "x".repeat(64))));
        wrong.put("no token", AuthenticationFactory.token("nothing"));
        wrong.put("a wrong password", broker.basic(SecureBroker.ROLE, "wrong"));
        wrong.put("an unknown user", broker.basic("nobody", broker.get("password")));
        wrong.put("nothing", null);
        var parts = new Parts();
        for (var one : wrong.entrySet()) {
            parts.add(one.getKey(), () -> {
                var client = broker.client(one.getValue());
                Check.refused(AuthenticationException.class,
                        () -> client.newProducer().topic(stage.topic).create());
                Check.refused(AuthenticationException.class,
                        () -> client.newConsumer().topic(stage.topic).subscriptionName("sub").subscribe());
                isRefused(stage, brief(broker, one.getValue(), "webUrl", builder -> builder));
            });
        }
        parts.add("a wrong secret of a client", () -> isRefused(stage,
                brief(broker, broker.oauth2("issuer", "wrongSecretFile"), "url", builder -> builder)));
        parts.play();
    }

    @Scenario
    static void whoIsNotTrustedIsNotConnectedTo(Stage stage) throws Exception {
        var broker = new SecureBroker(stage);
        var misnamed = broker.ofAnotherName();
        var parts = new Parts();
        for (var url : List.of("url", "webUrl")) {
            parts.add("another name at " + url, () -> {
                isRefused(stage, brief(misnamed, broker.superUser(), url, builder -> builder));
                publishAndReceive(broker, misnamed.client(broker.superUser(), url,
                        builder -> builder.enableTlsHostnameVerification(false)), url);
            });
            parts.add("another authority at " + url, () -> isRefused(stage, brief(broker, broker.superUser(), url,
                    builder -> builder.tlsTrustCertsFilePath(broker.get("otherTrust")))));
            for (var whose : List.of("stranger", "expired")) {
                var certificate = AuthenticationFactory.TLS(broker.get(whose + "Cert"), broker.get(whose + "Key"));
                parts.add("a certificate that is " + whose + " at " + url,
                        () -> isRefused(stage, brief(broker, certificate, url, builder -> builder)));
            }
        }
        parts.play();
    }

    /** A client that gives up soon: one that is not told to tries again for long after most failures. */
    private static PulsarClient brief(SecureBroker broker, Authentication authentication, String url,
            UnaryOperator<ClientBuilder> adapt) throws Exception {
        return broker.client(authentication, url, builder -> adapt.apply(builder)
                .operationTimeout(1, TimeUnit.SECONDS).lookupTimeout(1, TimeUnit.SECONDS));
    }

    private static void isRefused(Stage stage, PulsarClient client) {
        Check.refused(PulsarClientException.class, () -> client.newProducer().topic(stage.topic).create());
    }

    @Scenario
    static void whatARoleMayNotDoIsRefused(Stage stage) throws Exception {
        var broker = new SecureBroker(stage);
        var role = stage.name;
        var client = broker.client(AuthenticationFactory.token(broker.token(role, 3600)));
        try (var admin = broker.admin(broker.superUser())) {
            for (var topic : broker.topics()) {
                mayNotConsume(client, topic);
                mayNotProduce(client, topic);
            }
            admin.namespaces().grantPermissionOnNamespace("public/default", role, Set.of(AuthAction.produce));
            for (var topic : broker.topics()) {
                send(client.newProducer().topic(topic).create(), "a");
                mayNotConsume(client, topic);
            }
            admin.namespaces().grantPermissionOnNamespace("public/default", role, Set.of(AuthAction.consume));
            for (var topic : broker.topics()) {
                mayNotProduce(client, topic);
                var consumer = client.newConsumer().topic(topic).subscriptionName("sub")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                Check.equal(texts(take(consumer, 1)), List.of("a"));
            }
        }
    }

    private static void mayNotProduce(PulsarClient client, String topic) {
        Check.refused(AuthorizationException.class, () -> client.newProducer().topic(topic).create());
    }

    private static void mayNotConsume(PulsarClient client, String topic) {
        Check.refused(AuthorizationException.class,
                () -> client.newConsumer().topic(topic).subscriptionName("sub").subscribe());
        Check.refused(AuthorizationException.class,
                () -> client.newReader().topic(topic).startMessageId(MessageId.earliest).create());
    }

    @Scenario
    static void theAdminClientOverHttps(Stage stage) throws Exception {
        var broker = new SecureBroker(stage);
        var parts = new Parts();
        broker.methods().forEach((name, method) -> parts.add(name, () -> {
            try (var admin = broker.admin(method)) {
                Check.equal(admin.lookups().lookupTopic(stage.topic), broker.get("url"));
                isRefused(admin);
            }
        }));
        parts.add("the super-user", () -> {
            try (var admin = broker.admin(broker.superUser())) {
                Check.that(admin.tenants().getTenants().contains("public"), "there is no tenant public");
                Check.equal(admin.namespaces().getPermissions("public/default").get(SecureBroker.ROLE),
                        Set.of(AuthAction.produce, AuthAction.consume));
            }
        });
        parts.add("an expired token", () -> {
            try (var admin = broker.admin(AuthenticationFactory.token(broker.token(SecureBroker.SUPER_USER, -60)))) {
                isRefused(admin);
            }
        });
        parts.add("a wrong password", () -> {
            try (var admin = broker.admin(broker.basic(SecureBroker.ROLE, "wrong"))) {
                isRefused(admin);
            }
        });
        parts.add("nothing", () -> {
            try (var admin = broker.admin(null)) {
                isRefused(admin);
            }
        });
        parts.add("a broker of another name", () -> doesNotTrust(broker.ofAnotherName().admin(broker.superUser())));
        parts.add("a broker of another authority", () -> doesNotTrust(broker.admin(broker.superUser(),
                builder -> builder.tlsTrustCertsFilePath(broker.get("otherTrust")))));
        parts.play();
    }

    private static void doesNotTrust(PulsarAdmin admin) {
        try (admin) {
            Check.refused(PulsarAdminException.class, () -> admin.tenants().getTenants());
        }
    }

    private static void isRefused(PulsarAdmin admin) {
        Check.refused(NotAuthorizedException.class,
                () -> admin.tenants().getTenants());
    }
}
