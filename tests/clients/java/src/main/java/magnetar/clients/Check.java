package magnetar.clients;

import java.util.Objects;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;

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
