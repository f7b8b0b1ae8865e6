package magnetar.clients;

import static magnetar.clients.Stage.next;
import static magnetar.clients.Stage.send;
import static magnetar.clients.Stage.sendBatch;
import static magnetar.clients.Stage.take;
import static magnetar.clients.Stage.text;
import static magnetar.clients.Stage.texts;

import java.security.Key;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.ConsumerCryptoFailureAction;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionType;

/** Payloads that only clients can read: the broker stores what it cannot. */
final class Encryption {
    private Encryption() {}

    /** A pair of keys, as a file would have them. */
    private record Keys(KeyPair pair) implements CryptoKeyReader {
        static Keys generate() throws Exception {
            var generator = KeyPairGenerator.getInstance("RSA");
            generator.initialize(2048);
            return new Keys(generator.generateKeyPair());
        }

        @Override
        public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
            return new EncryptionKeyInfo(pem("PUBLIC KEY", pair.getPublic()), metadata);
        }

        @Override
        public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
            return new EncryptionKeyInfo(pem("PRIVATE KEY", pair.getPrivate()), metadata);
        }

        private static byte[] pem(String what, Key key) {
            var body = Base64.getMimeEncoder(64, "\n".getBytes()).encodeToString(key.getEncoded());
            return ("-----BEGIN " + what + "-----\n" + body + "\n-----END " + what + "-----\n").getBytes();
        }
    }

    @Scenario
    static void whoHasTheKeyReads(Stage stage) throws Exception {
        var keys = Keys.generate();
        var plain = stage.producing().cryptoKeyReader(keys).addEncryptionKey("key").create();
        var batching = stage.producing().enableBatching(true).cryptoKeyReader(keys).addEncryptionKey("key")
                .batchingMaxPublishDelay(1, TimeUnit.MINUTES).create();
        send(plain, "secret");
        sendBatch(batching, "of", "a", "batch");
        for (var type : SubscriptionType.values()) {
            var consumer = stage.consuming(type).subscriptionName(type.name()).cryptoKeyReader(keys).subscribe();
            var messages = take(consumer, 4);
            Check.equal(texts(messages), List.of("secret", "of", "a", "batch"));
            Stage.acknowledge(consumer, messages);
        }
        var blind = stage.consuming(SubscriptionType.Shared).subscriptionName("blind")
                .cryptoFailureAction(ConsumerCryptoFailureAction.CONSUME).subscribe();
        Check.that(!text(next(blind)).contains("secret"), "it is not encrypted");
    }

    @Scenario
    static void aNamespaceThatRequiresIt(Stage stage) throws Exception {
        stage.takeOwnBroker();
        var plain = stage.producing().create();
        send(plain, "plain");
        plain.close();
        stage.rest("POST", "namespaces/public/default/encryptionRequired", "true");
        var keys = Keys.generate();
        send(stage.producing().cryptoKeyReader(keys).addEncryptionKey("key").create(), "secret");
        // The client takes it for a passing trouble: it asks again until its time is up.
        var impatient = stage.newClient(builder -> builder.operationTimeout(10, TimeUnit.SECONDS));
        Check.refused(PulsarClientException.class, () -> impatient.newProducer().topic(stage.topic).create());
        var consumer = stage.consuming(SubscriptionType.Shared).cryptoKeyReader(keys).subscribe();
        Check.equal(texts(take(consumer, 2)), List.of("plain", "secret"));
    }
}
