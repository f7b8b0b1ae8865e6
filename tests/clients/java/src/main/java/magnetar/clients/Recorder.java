package magnetar.clients;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

/** An interface of the admin client that knows which of its methods have been called. */
final class Recorder<T> {
    final T api;
    private final Class<T> kind;
    private final Set<String> called = ConcurrentHashMap.newKeySet();

    Recorder(Class<T> kind, T target) {
        this.kind = kind;
        this.api = kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind},
                (proxy, method, arguments) -> {
                    called.add(name(method));
                    try {
                        return method.invoke(target, arguments);
                    } catch (InvocationTargetException failed) {
                        throw failed.getCause();
                    }
                }));
    }

    /** Of a method and of its asynchronous form, for which it waits. */
    private static String name(Method method) {
        return method.getName().replaceAll("Async$", "");
    }

    /** Every method has been called, but for these, which have reasons. */
    void expectAllBut(Map<String, String> reasons) {
        var names = new TreeSet<String>();
        Arrays.stream(kind.getMethods()).forEach(method -> names.add(name(method)));
        var missing = new TreeSet<>(names);
        missing.removeAll(called);
        missing.removeAll(reasons.keySet());
        Check.that(missing.isEmpty(), kind.getSimpleName() + ": not called: " + missing);
        for (var name : reasons.keySet()) {
            Check.that(names.contains(name), kind.getSimpleName() + " has no " + name);
            Check.that(!called.contains(name), kind.getSimpleName() + "." + name + " is called: not to be left out");
        }
    }
}
