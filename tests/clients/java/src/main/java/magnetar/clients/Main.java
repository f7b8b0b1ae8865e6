package magnetar.clients;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Plays scenarios that are named on standard input, one a line: name, service URL, HTTP URL, topic,
 * with tabs between. Its answers are lines: "ask WHAT", to be answered with a line; at the end "ok", or
 * "fail TEXT" with \n for line ends.
 */
final class Main {
    private static final long LIMIT_MS =
            1000 * Long.parseLong(System.getenv().getOrDefault("SCENARIO_SECONDS", "600"));
    private static final Class<?>[] SUBJECTS = {
        Access.class, Acks.class, AdminBrokers.class, AdminNamespaces.class, AdminSchemas.class,
        AdminTenants.class, AdminTopics.class, Basics.class, BrokerMetadata.class, Chunks.class, Compaction.class,
        DeadLetters.class, Deduplication.class, Delays.class, Encryption.class, Ends.class, Failover.class, KeyShared.class,
        Page.class, Patterns.class, Policies.class, Readers.class, Redelivery.class, Schemas.class,
        SecureClients.class, SecureRenewals.class, Seeks.class, Topics.class, Transactions.class,
        Values.class,
    };

    private Main() {}

    public static void main(String[] none) throws IOException {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var teller = new Teller(input, output);
        var scenarios = scenarios();
        for (String line; (line = input.readLine()) != null; ) {
            var fields = line.split("\t");
            var stage = new Stage(fields[1], fields[2], fields[3], teller);
            output.println(play(scenarios.get(fields[0]), stage));
        }
        System.exit(0); // a client that hangs must not keep the process
    }

    /** "Subject.method" to method. */
    private static Map<String, Method> scenarios() {
        var found = new TreeMap<String, Method>();
        for (var subject : SUBJECTS) {
            for (var method : subject.getDeclaredMethods()) {
                if (method.isAnnotationPresent(Scenario.class)) {
                    found.put(subject.getSimpleName() + "." + method.getName(), method);
                }
            }
        }
        return found;
    }

    private static String play(Method scenario, Stage stage) {
        var failure = new AtomicReference<Throwable>();
        var player = new Thread(() -> {
            try {
                scenario.invoke(null, stage);
            } catch (InvocationTargetException failed) {
                failure.set(failed.getCause());
            } catch (Throwable failed) {
                failure.set(failed);
            }
        });
        player.setDaemon(true);
        player.start();
        try {
            player.join(LIMIT_MS);
            if (player.isAlive()) {
                var stuck = new AssertionError("not done after " + LIMIT_MS + " ms");
                stuck.setStackTrace(player.getStackTrace());
                failure.set(stuck);
                player.interrupt();
            }
            stage.close();
        } catch (Exception failed) {
            failure.compareAndSet(null, failed);
        }
        return failure.get() == null ? "ok" : "fail " + described(failure.get());
    }

    private static String described(Throwable failure) {
        var text = new StringWriter();
        failure.printStackTrace(new PrintWriter(text));
        return text.toString().replace("\r", "").replace("\n", "\\n");
    }
}
