package magnetar.clients;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Parts of a scenario that do not depend on each other: played at the same time, all of them even if one fails. */
final class Parts {
    private static final int AT_A_TIME = 4;
    private final Map<String, Check.Deed> parts = new LinkedHashMap<>();

    Parts add(String name, Check.Deed part) {
        parts.put(name, part);
        return this;
    }

    void play() throws InterruptedException {
        play(AT_A_TIME);
    }

    /** One after another. */
    void playInTurn() throws InterruptedException {
        play(1);
    }

    /** When the time of the scenario is over, and the thread is interrupted, the failure names what is not done. */
    private void play(int atATime) throws InterruptedException {
        var threads = Executors.newFixedThreadPool(atATime, task -> {
            var thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        var results = new LinkedHashMap<String, Future<?>>();
        parts.forEach((name, part) -> results.put(name, threads.submit(() -> {
            part.run();
            return null;
        })));
        var failures = new AssertionError(parts.size() + " parts");
        var names = new StringBuilder();
        for (var result : results.entrySet()) {
            try {
                result.getValue().get();
            } catch (ExecutionException failed) {
                names.append("\n  ").append(result.getKey()).append(": ").append(failed.getCause());
                failures.addSuppressed(failed.getCause());
            } catch (InterruptedException late) {
                results.forEach((name, part) -> names.append(part.isDone() ? "" : "\n  not done: " + name));
                throw new AssertionError(names.toString(), late);
            }
        }
        threads.shutdown();
        if (!names.isEmpty()) {
            var failure = new AssertionError("failed parts:" + names);
            failure.setStackTrace(new StackTraceElement[0]);
            for (var cause : failures.getSuppressed()) {
                failure.addSuppressed(cause);
            }
            throw failure;
        }
    }
}
