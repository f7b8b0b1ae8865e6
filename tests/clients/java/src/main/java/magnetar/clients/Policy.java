package magnetar.clients;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;

/**
 * A policy that is set, read back, and removed, by the methods setNAME, getNAME and removeNAME, as far as the
 * interface has them. Unset is what getNAME returns without it; shown, what is compared of a value.
 */
record Policy(String name, Object value, Object unset, UnaryOperator<Object> shown) {
    static Policy of(String name, Object value) {
        return new Policy(name, value, null, UnaryOperator.identity());
    }

    static Policy of(String name, Object value, Object unset) {
        return new Policy(name, value, unset, UnaryOperator.identity());
    }

    /** Those of which the interface has a method, as parts. */
    static Parts parts(Object api, String target, List<Policy> policies) {
        var parts = new Parts();
        for (var policy : policies) {
            if (find(api, "get" + policy.name, 1) != null || find(api, "get" + policy.name, 2) != null) {
                parts.add(policy.name, () -> policy.play(api, target));
            }
        }
        return parts;
    }

    private void play(Object api, String target) throws Exception {
        expect(api, target, unset);
        var setter = find(api, "set" + name, 2);
        if (setter == null) {
            call(find(api, "set" + name, 1), api, target);
        } else {
            call(setter, api, target, value);
        }
        expect(api, target, value);
        var remover = find(api, "remove" + name, 1);
        if (remover == null) {
            remover = find(api, "delete" + name, 1);
        }
        if (remover != null) {
            call(remover, api, target);
            expect(api, target, unset);
        }
    }

    /** Soon: the original reads policies of topics from a topic. */
    private void expect(Object api, String target, Object expected) throws Exception {
        var plain = find(api, "get" + name, 1);
        if (plain != null) {
            Check.soon(() -> shown(call(plain, api, target)), shown(expected));
        }
        var applied = find(api, "get" + name, 2);
        if (applied != null) {
            Check.soon(() -> shown(call(applied, api, target, false)), shown(expected));
            var effective = call(applied, api, target, true);
            if (!Objects.equals(expected, unset)) {
                Check.equal(shown(effective), shown(expected));
            }
        }
    }

    private Object shown(Object one) {
        return one == null ? null : shown.apply(one);
    }

    /** With so many parameters, of which the second is no subscription. */
    private static Method find(Object api, String name, int parameters) {
        return Arrays.stream(api.getClass().getInterfaces()[0].getMethods())
                .filter(method -> method.getName().equals(name) && method.getParameterCount() == parameters)
                .filter(method -> parameters < 2 || method.getParameterTypes()[1] != String.class
                        || name.endsWith("Group"))
                .findFirst().orElse(null);
    }

    private static Object call(Method method, Object api, Object... arguments) throws Exception {
        try {
            var result = method.invoke(api, arguments);
            return result instanceof CompletableFuture<?> later ? later.get(Stage.WAIT_S, TimeUnit.SECONDS) : result;
        } catch (InvocationTargetException failed) {
            throw failed.getCause() instanceof Exception failure ? failure : failed;
        }
    }
}
