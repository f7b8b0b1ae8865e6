package magnetar.clients;

import java.net.URL;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminBuilder;
import org.apache.pulsar.client.api.Authentication;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.impl.auth.AuthenticationBasic;
import org.apache.pulsar.client.impl.auth.oauth2.AuthenticationFactoryOAuth2;

/** A broker with TLS, every method of authentication and authorization, and what its clients need. */
final class SecureBroker {
    /** What every method proves: it may produce and consume in public/default. */
    static final String ROLE = "alice";

    /** It may do everything. */
    static final String SUPER_USER = "root";

    /** More than a scenario has: what a client tries again until then fails the scenario. */
    private static final int FOR_EVER_S = 600;

    private final Stage stage;
    private final Map<String, String> details;

    SecureBroker(Stage stage) throws Exception {
        this(stage, asked(stage, "secured"));
    }

    private SecureBroker(Stage stage, Map<String, String> details) {
        this.stage = stage;
        this.details = details;
    }

    /** Another, with the same credentials, whose certificate is for a host of another name. */
    SecureBroker ofAnotherName() throws Exception {
        var others = new HashMap<>(details);
        others.putAll(asked(stage, "another-name"));
        return new SecureBroker(stage, others);
    }

    private static Map<String, String> asked(Stage stage, String what) throws Exception {
        return Arrays.stream(stage.ask(what).split(" ")).map(word -> word.split("=", 2))
                .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
    }

    String get(String name) {
        return details.get(name);
    }

    /** Several, so that each of several workers owns some. */
    List<String> topics() {
        return IntStream.range(0, 6).mapToObj(number -> stage.topic + "-" + number).toList();
    }

    /** Over TLS with a check of the broker's name; the operations of the client take as long as they need. */
    PulsarClient client(Authentication authentication) throws Exception {
        return client(authentication, "url", builder -> builder);
    }

    /** At one of the addresses: `url`, `webUrl` or `plainUrl`. */
    PulsarClient client(Authentication authentication, String url, UnaryOperator<ClientBuilder> adapt)
            throws Exception {
        return stage.newClient(builder -> {
            builder.serviceUrl(get(url)).tlsTrustCertsFilePath(get("trust"))
                    .enableTlsHostnameVerification(true).operationTimeout(FOR_EVER_S, TimeUnit.SECONDS)
                    .lookupTimeout(FOR_EVER_S, TimeUnit.SECONDS);
            return adapt.apply(authentication == null ? builder : builder.authentication(authentication));
        });
    }

    /** Over HTTPS, to be closed. */
    PulsarAdmin admin(Authentication authentication) throws Exception {
        return admin(authentication, builder -> builder);
    }

    PulsarAdmin admin(Authentication authentication, UnaryOperator<PulsarAdminBuilder> adapt) throws Exception {
        var builder = PulsarAdmin.builder().serviceHttpUrl(get("webUrl"))
                .tlsTrustCertsFilePath(get("trust")).enableTlsHostnameVerification(true);
        return adapt.apply(authentication == null ? builder : builder.authentication(authentication)).build();
    }

    /** One of each method, by name. */
    Map<String, Authentication> methods() throws Exception {
        var methods = new LinkedHashMap<String, Authentication>();
        methods.put("token", AuthenticationFactory.token(token(ROLE, 3600)));
        methods.put("basic", basic(ROLE, get("password")));
        methods.put("oauth2", oauth2("issuer", "clientSecretFile"));
        methods.put("certificate", AuthenticationFactory.TLS(get("cert"), get("key")));
        return methods;
    }

    Authentication basic(String user, String password) {
        var basic = new AuthenticationBasic();
        basic.configure("{\"userId\": \"%s\", \"password\": \"%s\"}".formatted(user, password));
        return basic;
    }

    Authentication oauth2(String issuer, String secretFile) throws Exception {
        return AuthenticationFactoryOAuth2.clientCredentials(
                new URL(get(issuer)), Path.of(get(secretFile)).toUri().toURL(), get("audience"));
    }

    Authentication superUser() {
        return AuthenticationFactory.token(token(SUPER_USER, 3600));
    }

    /** A JSON Web Token that expires in so many seconds. */
    String token(String role, long seconds) {
        return signed(role, seconds, get("secret"));
    }

    static String signed(String role, long seconds, String secret) {
        var end = Instant.now().getEpochSecond() + seconds;
        var content = encoded("{\"alg\":\"HS256\"}".getBytes()) + "."
                + encoded("{\"sub\":\"%s\",\"exp\":%d}".formatted(role, end).getBytes());
        try {
            var mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret.getBytes(), "HmacSHA256"));
            return content + "." + encoded(mac.doFinal(content.getBytes()));
        } catch (java.security.GeneralSecurityException failed) {
            throw new IllegalStateException(failed);
        }
    }

    private static String encoded(byte[] content) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(content);
    }
}
