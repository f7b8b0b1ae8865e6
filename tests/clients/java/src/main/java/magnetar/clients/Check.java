package magnetar.clients;

import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.pulsar.client.admin.PulsarAdminException;

/** What must hold. */
final class Check {
    private Check() {}

    /** May fail. */
    interface Deed {
        void run() throws Exception;
    }

    static void that(boolean holds, String otherwise) {
        that(holds, () -> otherwise);
    }

    static void that(boolean holds, Supplier<String> otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise.get());
        }
    }

    static void equal(Object actual, Object expected) {
        that(Objects.equals(actual, expected), () -> actual + " is not " + expected);
    }

    /** What holds now, or comes to hold while it is asked for again and again. */
    static <T> void soon(Callable<T> asked, T expected) throws Exception {
        var end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Stage.WAIT_S);
        var actual = asked.call();
        while (!Objects.equals(actual, expected) && System.nanoTime() < end) {
            Thread.sleep(20);
            actual = asked.call();
        }
        equal(actual, expected);
    }

    /** A feature of the original: a broker that does not have it says so, with 501, 405 or 404. */
    static void worksOrIsAbsent(Deed deed) throws Exception {
        try {
            deed.run();
        } catch (PulsarAdminException failure) {
            that(Set.of(501, 405, 404).contains(failure.getStatusCode()), failure::toString);
        }
    }

    /** It fails, with this kind of exception or one that has it as a cause. */
    static void refused(Class<? extends Exception> kind, Deed deed) {
        try {
            deed.run();
        } catch (Exception failure) {
            Throwable cause = failure;
            while (cause instanceof ExecutionException || cause instanceof CompletionException) {
                cause = cause.getCause();
            }
            if (kind.isInstance(cause)) {
                return;
            }
            throw new AssertionError("refused, but with " + cause, failure);
        }
        throw new AssertionError("not refused with " + kind.getSimpleName());
    }
}
